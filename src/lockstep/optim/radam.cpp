#include <lockstep/optim/radam.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

/// The factor of the step, without the correction of the mean; 0 while the variance is unknown.
double rectification(const Run& run, double beta2) {
  const double t = static_cast<double>(run.step), power = std::pow(beta2, t);
  const double most = 2.0 / (1.0 - beta2) - 1.0, r = most - 2.0 * t * power / (1.0 - power);
  if (!(r > 5.0)) return 0.0;
  return std::sqrt(1.0 - power) *
         std::sqrt((r - 4.0) * (r - 2.0) * most / ((most - 4.0) * (most - 2.0) * r));
}

template <class T>
struct RAdamRule : WithDecay<T> {
  using WithDecay<T>::decay;

  /// `factor`: rectification().
  RAdamRule(const Run& run, const RAdamOptions& options, double factor)
      : WithDecay<T>{Decay<T>(run, options.decoupled_weight_decay)},
        moments(options.betas),
        eps(rounded<T>(options.eps)),
        step_size(rounded<T>(run.lr * (factor > 0.0 ? factor : 1.0) /
                             bias_correction(options.betas[0], run))),
        rectified(factor > 0.0) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& square) const {
    moments.add(decay.gradient(p, g), mean, square);
    const T step = step_size * mean;
    return decay.keep * p - (rectified ? step / (std::sqrt(square) + eps) : step);
  }

  Moments<T> moments;
  T eps, step_size;
  bool rectified;  ///< not in the first steps
};

}  // namespace

void declare(DeckTable& table, RAdamOptions& options) {
  declare_adam_keys(table, options, either_decay);
  declare_decoupled_weight_decay(table, options.decoupled_weight_decay);
}

RAdam::RAdam(std::vector<nn::NamedParameter> parameters, const RAdamOptions& options,
             const std::vector<ParameterGroup>& groups)
    : OptimizerOf(
          std::move(parameters), options, groups,
          {.name = "RAdam", .slots = {{"exp_avg"}, {"exp_avg_sq"}}, .reads_step_tensors = true}) {}

void RAdam::update(const Run& run) {
  const RAdamOptions& options = options_of(run);
  const double factor = rectification(run, options.betas[1]);
  update_elements<2>("lockstep::radam", run,
                     [&]<class T>() { return RAdamRule<T>(run, options, factor); });
}

}  // namespace lockstep::optim
