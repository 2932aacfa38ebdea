#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

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

/// torch.optim.RAdam, of f32 or f64. State: moments m (`<name>/exp_avg`) and v
/// (`<name>/exp_avg_sq`), like the parameter p with gradient g. In update t, from 1:
///   decoupled_weight_decay ? p *= 1 - lr weight_decay : g += weight_decay p
///   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;  m' = m / (1 - beta1^t)
///   R = 2 / (1 - beta2) - 1;  r = R - 2 t beta2^t / (1 - beta2^t)
///   r > 5: p -= lr m' sqrt(1 - beta2^t) / (sqrt(v) + eps)
///               sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r))
///   else:  p -= lr m'
/// Source: Liu et al. 2020 (arXiv:1908.03265), algorithm 2, with torch.optim's limit of 5 and place
/// of eps.
class RAdam : public OptimizerOf<RAdamOptions> {
 public:
  explicit RAdam(std::vector<nn::NamedParameter> parameters, const RAdamOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
