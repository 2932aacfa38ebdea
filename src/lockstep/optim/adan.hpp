#pragma once
#include <vector>

#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

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

/// Adan (tensor/kernels/optim/adan.hpp; Xie et al. 2022, arXiv:2208.06677), for f32 and f64
/// parameters. State: `<name>/exp_avg`, `<name>/exp_avg_diff`, `<name>/exp_avg_sq` and
/// `<name>/previous_grad`, like the parameter.
class Adan : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit Adan(std::vector<nn::NamedParameter> parameters, const AdanOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return options_.usual().betas[0]; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double momentum) override {
    options_.change_all([&](auto& options) { options.betas[0] = momentum; });
  }

  GroupedOptions<AdanOptions> options_;
};

}  // namespace lockstep::optim
