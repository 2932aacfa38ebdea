#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::optim {

/// Moves parameters along their gradients. The parameters are the model's own: copies of a Variable
/// share value and gradient. A parameter without a gradient since the last zero_grad() is skipped,
/// as in PyTorch. One thread at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient. Allocates nothing.
  virtual void step() = 0;

  /// Forgets the gradients; their memory is overwritten by the next backward.
  void zero_grad() const;

  /// The learning rate of the next step; schedules set it, checkpoints do not hold it.
  [[nodiscard]] double lr() const noexcept { return lr_; }
  void set_lr(double lr);  ///< throws InputError if negative or not finite

  [[nodiscard]] const std::vector<nn::NamedParameter>& parameters() const { return parameters_; }

  /// The state by `<parameter name>/<slot>`, such as "conv1.weight/momentum_buffer": the
  /// optimizer's own memory, complete from construction, so that loading into it before or after
  /// the first step continues exactly where the saved optimizer was. Empty for a stateless one.
  [[nodiscard]] virtual StateDict state_dict() const = 0;
  /// Copies into the state. Throws Error listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state) { copy_state(state, state_dict()); }

 protected:
  /// Throws Error if there are no parameters, or one is undefined, needs no gradient, or is there
  /// twice (by name or by memory).
  Optimizer(std::vector<nn::NamedParameter> parameters, double lr);

 private:
  std::vector<nn::NamedParameter> parameters_;
  double lr_ = 0.0;
};

}  // namespace lockstep::optim
