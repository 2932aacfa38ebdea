#pragma once
#include <vector>

#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.ASGD's hyper-parameters and defaults.
struct AsgdOptions {
  double lr = 1e-2;
  double lambd = 1e-4;        ///< how fast the parameters decay
  double alpha = 0.75;        ///< power of the rate's decay
  double t0 = 1e6;            ///< updates before averaging begins
  double weight_decay = 0.0;  ///< L2: added to the gradient
};
void declare(DeckTable& table, AsgdOptions& options);

/// Averaged SGD, torch.optim.ASGD's formulas (tensor/kernels/optim/asgd.hpp), for f32 and f64
/// parameters. State: `<name>/ax`, the averaged parameter.
class ASGD : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit ASGD(std::vector<nn::NamedParameter> parameters, const AsgdOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return 0.0; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double /*momentum*/) override {}

  GroupedOptions<AsgdOptions> options_;
};

}  // namespace lockstep::optim
