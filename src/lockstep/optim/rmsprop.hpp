#pragma once
#include <vector>

#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.RMSprop's hyper-parameters and defaults.
struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< share that the running mean of squares keeps, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< L2: added to the gradient
  double momentum = 0.0;
  bool centered = false;  ///< divide by the standard deviation of the gradient (centered RMSprop)
};
void declare(DeckTable& table, RmspropOptions& options);

/// torch.optim.RMSprop, of f32 or f64. State: s (`<name>/square_avg`) and, centered, a
/// (`<name>/grad_avg`) and, with momentum, b (`<name>/momentum_buffer`), like the parameter p with
/// gradient g.
///   g = g + weight_decay p;  s = alpha s + (1 - alpha) g^2;  u = sqrt(s) + eps;  p -= lr g / u
/// Centered: a += (1 - alpha) (g - a) and u = sqrt(s - a^2) + eps. With momentum: b = momentum b +
/// g / u and p -= lr b. Source: Hinton, Neural Networks for Machine Learning, lecture 6e; centered:
/// Graves 2013 (arXiv:1308.0850), equations 38 to 40.
class RMSprop : public OptimizerOf<RmspropOptions> {
 public:
  explicit RMSprop(std::vector<nn::NamedParameter> parameters, const RmspropOptions& options = {},
                   const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
