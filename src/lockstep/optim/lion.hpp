#pragma once
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// Lion's hyper-parameters, and the defaults of its authors.
struct LionOptions {
  double lr = 1e-4;
  Betas betas{0.9, 0.99};     ///< of the step's mean and of the mean that is kept
  double weight_decay = 0.0;  ///< decoupled: a step shrinks the parameter by lr weight_decay
};
void declare(DeckTable& table, LionOptions& options);

/// Lion (Chen et al. 2023, arXiv:2302.06675; tensor/kernels/optim/lion.hpp), which torch.optim does
/// not have, for f32 and f64 parameters. State: `<name>/exp_avg`, like the parameter.
class Lion : public Optimizer {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit Lion(std::vector<nn::NamedParameter> parameters, const LionOptions& options = {},
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

  GroupedOptions<LionOptions> options_;
};

}  // namespace lockstep::optim
