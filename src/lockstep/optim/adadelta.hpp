#pragma once
#include <vector>

#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.Adadelta's hyper-parameters and defaults.
struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;  ///< share that the running means keep, in [0, 1)
  double eps = 1e-6;
  double weight_decay = 0.0;  ///< L2: added to the gradient
};
void declare(DeckTable& table, AdadeltaOptions& options);

/// torch.optim.Adadelta, of f32 or f64. State: running mean squares s (`<name>/square_avg`) of
/// gradients g and d (`<name>/acc_delta`) of steps, like the parameter p.
///   g = g + weight_decay p;  s = rho s + (1 - rho) g^2
///   u = sqrt(d + eps) / sqrt(s + eps) g;  d = rho d + (1 - rho) u^2;  p -= lr u
/// Source: Zeiler 2012 (arXiv:1212.5701), algorithm 1.
class Adadelta : public OptimizerOf<AdadeltaOptions> {
 public:
  explicit Adadelta(std::vector<nn::NamedParameter> parameters, const AdadeltaOptions& options = {},
                    const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
