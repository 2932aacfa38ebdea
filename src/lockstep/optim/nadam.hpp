#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.NAdam's hyper-parameters and defaults.
struct NAdamOptions {
  double lr = 2e-3;
  Betas betas{0.9, 0.999};  ///< shares that the running means keep, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  ///< the decay shrinks the parameter, as AdamW's
};
void declare(DeckTable& table, NAdamOptions& options);

/// torch.optim.NAdam, of f32 or f64. It has its own momentum schedule,
/// mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2), and no momentum that another could move. State:
/// moments m (`<name>/exp_avg`) and v (`<name>/exp_avg_sq`), like the parameter p with gradient g.
/// In update t, from 1:
///   decoupled_weight_decay ? p *= 1 - lr weight_decay : g += weight_decay p
///   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
///   p -= lr ((1 - mu_t) / (1 - mu_product) g + mu_(t+1) / (1 - mu_product mu_(t+1)) m)
///        / (sqrt(v / (1 - beta2^t)) + eps)
/// where mu_product = mu_1 mu_2 ... mu_t. Source: Dozat 2016 (Incorporating Nesterov Momentum into
/// Adam), algorithm 2.
class NAdam : public OptimizerOf<NAdamOptions> {
 public:
  explicit NAdam(std::vector<nn::NamedParameter> parameters, const NAdamOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return 0.0; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    OptimizerOf::visit_options(group, visit);
    products_[group] = {};
  }
  void keep_momentum(double /*momentum*/) override {}
  /// Worked out from the step, so that the state need not hold it.
  [[nodiscard]] double mu_product(std::size_t group, std::int64_t step);

  struct Product {
    std::int64_t multiplied = 0;  ///< the step that it is of
    double product = 1.0;
  };
  std::vector<Product> products_;  ///< [group]
};

}  // namespace lockstep::optim
