#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

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

/// NAdam, torch.optim.NAdam's formulas (tensor/kernels/optim/nadam.hpp), for f32 and f64
/// parameters. It has a momentum schedule of its own, mu_t = beta1 (1 - 0.96^(t momentum_decay) /
/// 2), and no momentum that another could move. State: `<name>/exp_avg` and `<name>/exp_avg_sq`,
/// like the parameter.
class NAdam : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit NAdam(std::vector<nn::NamedParameter> parameters, const NAdamOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return 0.0; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
    products_[group] = {};
  }
  void keep_momentum(double /*momentum*/) override {}
  [[nodiscard]] static double mu(const NAdamOptions& options, std::int64_t step);
  /// mu(1) mu(2) ... mu(step): worked out from the step, so that the state need not hold it.
  [[nodiscard]] double mu_product(std::size_t group, std::int64_t step);

  struct Product {
    std::int64_t multiplied = 0;  ///< the step that it is of
    double product = 1.0;
  };
  std::vector<Product> products_;  ///< [group]
  GroupedOptions<NAdamOptions> options_;
};

}  // namespace lockstep::optim
