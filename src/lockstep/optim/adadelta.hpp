#pragma once
#include <vector>

#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.Adadelta's hyper-parameters and defaults.
struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;  ///< share that the running means keep, in [0, 1)
  double eps = 1e-6;
  double weight_decay = 0.0;  ///< L2: added to the gradient
};
void declare(DeckTable& table, AdadeltaOptions& options);

/// Adadelta, torch.optim.Adadelta's formulas (tensor/kernels/optim/adadelta.hpp), for f32 and f64
/// parameters.
/// State: `<name>/square_avg` and `<name>/acc_delta`, like the parameter.
class Adadelta : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit Adadelta(std::vector<nn::NamedParameter> parameters, const AdadeltaOptions& options = {},
                    const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return 0.0; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double /*momentum*/) override {}

  GroupedOptions<AdadeltaOptions> options_;
};

}  // namespace lockstep::optim
