#pragma once
#include <vector>

#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.ASGD's hyper-parameters and defaults.
struct AsgdOptions {
  double lr = 1e-2;
  double lambd = 1e-4;        ///< decay of the parameters (lambd)
  double alpha = 0.75;        ///< exponent of the rate's decay
  double t0 = 1e6;            ///< updates before averaging starts
  double weight_decay = 0.0;  ///< L2: added to the gradient
};
void declare(DeckTable& table, AsgdOptions& options);

/// Averaged SGD, torch.optim.ASGD, of f32 or f64. State: the average a (`<name>/ax`) of the
/// parameter p with gradient g. In update t, from 1:
///   eta = lr / (1 + lambd lr (t - 1))^alpha;  mu = 1 / max(1, t - 1 - t0)
///   g = g + weight_decay p;  p = (1 - lambd eta) p - eta g;  a += mu (p - a)
/// Source: Polyak, Juditsky 1992 (SIAM J. Control Optim. 30); the decays are those of
/// torch.optim.ASGD, which computes them one step early; this matters only if the rate changes.
class ASGD : public OptimizerOf<AsgdOptions> {
 public:
  explicit ASGD(std::vector<nn::NamedParameter> parameters, const AsgdOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
