#pragma once
#include <vector>

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

/// Stochastic gradient descent, torch.optim.SGD's formulas (tensor/kernels/sgd.hpp), for f32 and
/// f64 parameters.
/// State, if momentum is not 0: `<name>/momentum_buffer`, like the parameter, and `<name>/step`, an
/// i64 scalar on the host: the updates this parameter has had. The first one sets b = g.
class SGD : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit SGD(std::vector<nn::NamedParameter> parameters, const SgdOptions& options = {});

  void step() override;
  [[nodiscard]] StateDict state_dict() const override;
  [[nodiscard]] const SgdOptions& options() const noexcept { return options_; }

 private:
  struct Slots {
    Tensor momentum_buffer;
    Tensor step;
  };

  SgdOptions options_;
  std::vector<Slots> slots_;  ///< one a parameter; empty if momentum is 0
};

}  // namespace lockstep::optim
