#pragma once
#include <string>
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// An optimizer that scales each layer's step by a trust ratio of its own.
class LayerWise : public Optimizer {
 protected:
  /// `not_adapted`: patterns of names, as ParameterGroup's, whose trust ratio is 1. Throws
  /// InputError if one fits no parameter.
  LayerWise(std::vector<nn::NamedParameter> parameters, Setup setup,
            const std::vector<ParameterGroup>& groups, const std::vector<std::string>& not_adapted);

  [[nodiscard]] bool adapts(const Run& run) const { return adapted_[run.first]; }

 private:
  std::vector<bool> adapted_;  ///< one a parameter
};

/// LARS's hyper-parameters.
struct LarsOptions {
  double lr = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0.0;
  double trust_coefficient = 1e-3;       ///< of the ratio |w| / |g|; the paper's eta
  std::vector<std::string> not_adapted;  ///< names, such as "*.bias", whose trust ratio is 1
};
void declare(DeckTable& table, LarsOptions& options);

/// Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017), tensor/kernels/optim/lars.hpp,
/// for large batches. State: `<name>/momentum_buffer`, like the parameter; it holds the step, rate
/// included.
class LARS : public LayerWise {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit LARS(std::vector<nn::NamedParameter> parameters, const LarsOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

  [[nodiscard]] double momentum() const noexcept override { return options_.usual().momentum; }

 private:
  void update(const Run& run) override;
  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum(double momentum) override {
    options_.change_all([&](auto& options) { options.momentum = momentum; });
  }

  GroupedOptions<LarsOptions> options_;
};

/// LAMB's hyper-parameters.
struct LambOptions {
  double lr = 1e-3;
  Betas betas{0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.0;
  std::vector<std::string> not_adapted;  ///< names, such as "*.bias", whose trust ratio is 1
};
void declare(DeckTable& table, LambOptions& options);

/// LAMB (You et al. 2020), tensor/kernels/optim/lamb.hpp: Adam whose step is as long as a share of
/// the layer's own norm. State: `<name>/exp_avg` and `<name>/exp_avg_sq`, like the parameter.
class LAMB : public LayerWise {
 public:
  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  explicit LAMB(std::vector<nn::NamedParameter> parameters, const LambOptions& options = {},
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

  GroupedOptions<LambOptions> options_;
};

}  // namespace lockstep::optim
