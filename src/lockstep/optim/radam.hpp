#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.RAdam's hyper-parameters and defaults.
struct RAdamOptions {
  double lr = 1e-3;
  Betas betas{0.9, 0.999};  ///< shares that the running means keep, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_weight_decay = false;  ///< the decay shrinks the parameter, as AdamW's
};
void declare(DeckTable& table, RAdamOptions& options);

/// RAdam, torch.optim.RAdam's formulas (tensor/kernels/optim/radam.hpp), for f32 and f64
/// parameters. State: `<name>/exp_avg` and `<name>/exp_avg_sq`, like the parameter.
class RAdam : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit RAdam(std::vector<nn::NamedParameter> parameters, const RAdamOptions& options = {},
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

  GroupedOptions<RAdamOptions> options_;
};

}  // namespace lockstep::optim
