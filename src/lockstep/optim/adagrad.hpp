#pragma once
#include <vector>

#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.Adagrad's hyper-parameters and defaults.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;  ///< L2: added to the gradient
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
};
void declare(DeckTable& table, AdagradOptions& options);

/// torch.optim.Adagrad, of f32 or f64. State: the sum of squares s (`<name>/sum`), like the
/// parameter p with gradient g. In update t, from 1:
///   g = g + weight_decay p;  s += g^2
///   p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
/// Source: Duchi, Hazan, Singer 2011 (JMLR 12), figure 1, diagonal.
class Adagrad : public OptimizerOf<AdagradOptions> {
 public:
  explicit Adagrad(std::vector<nn::NamedParameter> parameters, const AdagradOptions& options = {},
                   const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;
};

}  // namespace lockstep::optim
