#pragma once
#include <vector>

#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.RMSprop's hyper-parameters and defaults.
struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< share that the running mean of squares keeps, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< L2: added to the gradient
  double momentum = 0.0;
  bool centered = false;  ///< divide by the deviation from the mean gradient
};
void declare(DeckTable& table, RmspropOptions& options);

/// RMSprop, torch.optim.RMSprop's formulas (tensor/kernels/optim/rmsprop.hpp), for f32 and f64
/// parameters. State: `<name>/square_avg` and, centered, `<name>/grad_avg`, and, with momentum,
/// `<name>/momentum_buffer`, like the parameter.
class RMSprop : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit RMSprop(std::vector<nn::NamedParameter> parameters, const RmspropOptions& options = {},
                   const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return options_.usual().momentum; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double momentum) override {
    options_.change_all([&](auto& options) { options.momentum = momentum; });
  }

  GroupedOptions<RmspropOptions> options_;
};

}  // namespace lockstep::optim
