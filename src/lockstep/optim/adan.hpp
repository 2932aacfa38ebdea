#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// Adan's hyper-parameters and defaults, as the authors' implementation for PyTorch names them.
struct AdanOptions {
  double lr = 1e-3;
  /// Shares that the running means of the gradient, of its change and of the square keep, in
  /// [0, 1). The paper's are 1 - these.
  BetaList<3> betas{0.98, 0.92, 0.99};
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< decoupled: a step divides the parameter by 1 + lr weight_decay
  bool no_prox = false;       ///< multiply it by 1 - lr weight_decay before the step, as AdamW
};
void declare(DeckTable& table, AdanOptions& options);

/// Adan, of f32 or f64. State: means m (`<name>/exp_avg`), v (`<name>/exp_avg_diff`) and n
/// (`<name>/exp_avg_sq`) and the gradient h of the step before (`<name>/previous_grad`), like the
/// parameter p with gradient g. In update t, from 1:
///   d = g - h, but 0 in the first step;  h = g
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) d
///   n = beta3 n + (1 - beta3) (g + beta2 d)^2
///   s = lr (m / (1 - beta1^t) + beta2 v / (1 - beta2^t)) / (sqrt(n / (1 - beta3^t)) + eps)
///   p = (p - s) / (1 + lr weight_decay), or with no_prox p = p (1 - lr weight_decay) - s
/// Source: Xie, Zhou, Li, Lin, Yan 2022 (arXiv:2208.06677), algorithm 1, whose betas are 1 - these,
/// with the bias corrections and the choice of no_prox of the authors' implementation.
class Adan : public OptimizerOf<AdanOptions> {
 public:
  explicit Adan(std::vector<nn::NamedParameter> parameters, const AdanOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
