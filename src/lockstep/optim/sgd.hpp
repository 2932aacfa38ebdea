#pragma once
#include <vector>

#include <lockstep/optim/optimizer_of.hpp>

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

/// Stochastic gradient descent, torch.optim.SGD, of f32 or f64. State, if momentum is not 0: b
/// (`<name>/momentum_buffer`), like the parameter p with gradient g.
///   g = g + weight_decay p;  b = momentum b + (1 - dampening) g, but g in the first update
///   p -= lr (momentum == 0 ? g : nesterov ? g + momentum b : b)
/// Source: torch.optim.SGD; Sutskever, Martens, Dahl, Hinton, ICML 2013.
class SGD : public OptimizerOf<SgdOptions> {
 public:
  explicit SGD(std::vector<nn::NamedParameter> parameters, const SgdOptions& options = {},
               const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
