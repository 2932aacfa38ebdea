#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// torch.optim.Adam's hyper-parameters and defaults.
struct AdamOptions {
  double lr = 1e-3;
  Betas betas{0.9, 0.999};  ///< shares that the running means keep, in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< L2: added to the gradient
  bool amsgrad = false;       ///< divide by the largest second moment so far
};
void declare(DeckTable& table, AdamOptions& options);

/// torch.optim.Adam, of f32 or f64. State: moments m (`<name>/exp_avg`) and v (`<name>/exp_avg_sq`)
/// and, with AMSGrad, the largest v so far (`<name>/max_exp_avg_sq`), like the parameter p with
/// gradient g. In update t, from 1, where w is v or, with AMSGrad, that maximum:
///   g += weight_decay p;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
///   p -= lr / (1 - beta1^t) m / (sqrt(w / (1 - beta2^t)) + eps)
/// Source: Kingma, Ba 2015 (arXiv:1412.6980), algorithm 1; Reddi, Kale, Kumar 2018
/// (arXiv:1904.09237), algorithm 2, with torch.optim's place of eps and maximum of the uncorrected
/// v.
class Adam : public OptimizerOf<AdamOptions> {
 public:
  explicit Adam(std::vector<nn::NamedParameter> parameters, const AdamOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

 protected:
  Adam(const char* name, std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
       bool decoupled_weight_decay, const std::vector<ParameterGroup>& groups);

 private:
  void update(const Run& run) override;

  bool decoupled_weight_decay_;
};

/// torch.optim.AdamW's hyper-parameters and defaults.
struct AdamWOptions {
  double lr = 1e-3;
  Betas betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;  ///< decoupled: a step shrinks the parameter by lr weight_decay
  bool amsgrad = false;
};
void declare(DeckTable& table, AdamWOptions& options);

/// torch.optim.AdamW: Adam with decoupled weight decay, p *= 1 - lr weight_decay. State as Adam's.
/// Source: Loshchilov, Hutter 2019 (arXiv:1711.05101), algorithm 2.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<nn::NamedParameter> parameters, const AdamWOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {});
};

}  // namespace lockstep::optim
