#pragma once
#include <vector>

#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.Adagrad's hyper-parameters and defaults.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;  ///< L2: added to the gradient
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
};
void declare(DeckTable& table, AdagradOptions& options);

/// Adagrad, torch.optim.Adagrad's formulas (tensor/kernels/optim/adagrad.hpp), for f32 and f64
/// parameters. State: `<name>/sum`, like the parameter.
class Adagrad : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit Adagrad(std::vector<nn::NamedParameter> parameters, const AdagradOptions& options = {},
                   const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return 0.0; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double /*momentum*/) override {}

  GroupedOptions<AdagradOptions> options_;
};

}  // namespace lockstep::optim
