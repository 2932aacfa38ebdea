#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.Adamax's hyper-parameters and defaults.
struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas{0.9, 0.999};  ///< shares that mean and norm keep, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< L2: added to the gradient
};
void declare(DeckTable& table, AdamaxOptions& options);

/// Adamax, torch.optim.Adamax's formulas (tensor/kernels/optim/adamax.hpp), for f32 and f64
/// parameters. State: `<name>/exp_avg` and `<name>/exp_inf`, like the parameter.
class Adamax : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit Adamax(std::vector<nn::NamedParameter> parameters, const AdamaxOptions& options = {},
                  const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return options_.usual().betas[0]; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double momentum) override {
    options_.change_all([&](auto& options) { options.betas[0] = momentum; });
  }

  GroupedOptions<AdamaxOptions> options_;
};

}  // namespace lockstep::optim
