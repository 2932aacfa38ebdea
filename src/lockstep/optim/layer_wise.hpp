#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer_of.hpp>

namespace lockstep::optim {

/// Which parameters' steps are scaled by a trust ratio of their own.
class AdaptedLayers {
 public:
  /// All parameters, except those whose names match a pattern of `not_adapted` (patterns as in
  /// ParameterGroup). Throws InputError if one fits no parameter.
  AdaptedLayers(const std::vector<nn::NamedParameter>& parameters,
                const std::vector<std::string>& not_adapted);

  [[nodiscard]] bool operator[](std::size_t parameter) const { return adapted_[parameter]; }

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

/// Layer-wise adaptive rate scaling for large batches, for f32 or f64 parameters. State: v
/// (`<name>/momentum_buffer`), like the parameter w with gradient g; it holds the step, rate
/// included. With |x| the Euclidean norm of a parameter:
///   ratio = trust_coefficient |w| / (|g| + weight_decay |w|)
///   v = momentum v + lr ratio (g + weight_decay w);  w -= v
/// The ratio is 1 if |w| or |g| is 0, so that a layer of zeros can change. Norms are summed in
/// double in an order that depends on the number of elements alone.
/// Source: You, Gitman, Ginsburg 2017 (arXiv:1708.03888), algorithm 1.
class LARS : public OptimizerOf<LarsOptions> {
 public:
  explicit LARS(std::vector<nn::NamedParameter> parameters, const LarsOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;

  AdaptedLayers adapted_;
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

/// LAMB: Adam whose step length is a fraction of the layer's norm, for f32 or f64 parameters.
/// State: moments m (`<name>/exp_avg`) and v (`<name>/exp_avg_sq`), like the parameter x with
/// gradient g. In update t, from 1, with |x| the Euclidean norm:
///   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
///   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay x
///   x -= lr |x| / |u| u
/// The ratio |x| / |u| is 1 if one of them is 0; norms are summed as in LARS.
/// Source: You et al. 2020 (arXiv:1904.00962), algorithm 2 with phi(z) = z.
class LAMB : public OptimizerOf<LambOptions> {
 public:
  explicit LAMB(std::vector<nn::NamedParameter> parameters, const LambOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});

 private:
  void update(const Run& run) override;

  AdaptedLayers adapted_;
};

}  // namespace lockstep::optim
