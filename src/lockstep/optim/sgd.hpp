#pragma once
#include <vector>

#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// torch.optim.SGD's hyper-parameters and defaults.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;  ///< needs momentum > 0 and dampening == 0
  double weight_decay = 0.0;
};
void declare(DeckTable& table, SgdOptions& options);

/// Stochastic gradient descent, torch.optim.SGD's formulas (tensor/kernels/optim/sgd.hpp), for f32
/// and f64 parameters. State, if momentum is not 0: `<name>/momentum_buffer`, like the parameter.
/// The first update of a parameter sets it to the gradient.
class SGD : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit SGD(std::vector<nn::NamedParameter> parameters, const SgdOptions& options = {},
               const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] const SgdOptions& options() const noexcept { return options_.usual(); }
  [[nodiscard]] double momentum() const noexcept override { return options_.usual().momentum; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double momentum) override {
    options_.change_all([&](auto& options) { options.momentum = momentum; });
  }

  GroupedOptions<SgdOptions> options_;
};

}  // namespace lockstep::optim
