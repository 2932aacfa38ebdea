#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.Adamax's hyper-parameters and defaults.
struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas{0.9, 0.999};  ///< shares that mean and norm keep, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< L2: added to the gradient
};
void declare(DeckTable& table, AdamaxOptions& options);

/// torch.optim.Adamax, of f32 or f64. State: the mean m (`<name>/exp_avg`) and the weighted
/// infinity norm u (`<name>/exp_inf`), like the parameter p with gradient g. In update t, from 1:
///   g = g + weight_decay p;  m += (1 - beta1) (g - m)
///   u = max(beta2 u, |g| + eps);  p -= lr / (1 - beta1^t) m / u
/// Source: Kingma, Ba 2015 (arXiv:1412.6980), algorithm 2, with torch.optim's place of eps.
class Adamax : public OptimizerOf<AdamaxOptions> {
 public:
  explicit Adamax(std::vector<nn::NamedParameter> parameters, const AdamaxOptions& options = {},
                  const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
