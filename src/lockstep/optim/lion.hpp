#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// Lion's hyper-parameters, and the defaults of its authors.
struct LionOptions {
  double lr = 1e-4;
  Betas betas{0.9, 0.99};     ///< of the step's mean and of the mean that is kept
  double weight_decay = 0.0;  ///< decoupled: a step shrinks the parameter by lr weight_decay
};
void declare(DeckTable& table, LionOptions& options);

/// Lion, which torch.optim does not have, of f32 or f64. State: the mean m (`<name>/exp_avg`), like
/// the parameter p with gradient g.
///   p *= 1 - lr weight_decay
///   p -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
/// where sign(0) = 0. Source: Chen et al. 2023 (arXiv:2302.06675), algorithm 2.
class Lion : public OptimizerOf<LionOptions> {
 public:
  explicit Lion(std::vector<nn::NamedParameter> parameters, const LionOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
