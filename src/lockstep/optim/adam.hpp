#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

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

/// Adam, torch.optim.Adam's formulas (tensor/kernels/optim/adam.hpp), for f32 and f64 parameters.
/// State: `<name>/exp_avg`, `<name>/exp_avg_sq` and, with AMSGrad, `<name>/max_exp_avg_sq`, like
/// the parameter.
class Adam : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit Adam(std::vector<nn::NamedParameter> parameters, const AdamOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return options_.usual().betas[0]; }

 protected:
  Adam(const char* name, std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
       bool decoupled_weight_decay, const std::vector<ParameterGroup>& groups);

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double momentum) override {
    options_.change_all([&](auto& options) { options.betas[0] = momentum; });
  }

  GroupedOptions<AdamOptions> options_;
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

/// Adam with decoupled weight decay, torch.optim.AdamW. State as Adam's.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<nn::NamedParameter> parameters, const AdamWOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {});
};

}  // namespace lockstep::optim
