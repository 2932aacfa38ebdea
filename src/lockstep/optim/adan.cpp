#include <lockstep/optim/adan.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct AdanRule : WithDecay<T> {
  using WithDecay<T>::decay;

  AdanRule(const Run& run, const AdanOptions& options)
      : WithDecay<T>{Decay<T>(run, true)},
        beta1(rounded<T>(options.betas[0])),
        take1(rounded<T>(1.0 - options.betas[0])),
        beta2(rounded<T>(options.betas[1])),
        take2(rounded<T>(1.0 - options.betas[1])),
        beta3(rounded<T>(options.betas[2])),
        take3(rounded<T>(1.0 - options.betas[2])),
        eps(rounded<T>(options.eps)),
        before(rounded<T>(options.no_prox ? 1.0 - run.lr * run.weight_decay : 1.0)),
        after(rounded<T>(options.no_prox ? 1.0 : 1.0 / (1.0 + run.lr * run.weight_decay))),
        rate(rounded<T>(run.lr / bias_correction(options.betas[0], run))),
        rate_of_change(
            rounded<T>(run.lr * options.betas[1] / bias_correction(options.betas[1], run))),
        correction(rounded<T>(1.0 / std::sqrt(bias_correction(options.betas[2], run)))),
        first(run.step == 1) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& mean_change, T& mean_square,
                               T& previous) const {
    g = decay.factor * g;
    const T change = first ? T{0} : g - previous;
    const T ahead = g + beta2 * change;
    mean = beta1 * mean + take1 * g;
    mean_change = beta2 * mean_change + take2 * change;
    mean_square = beta3 * mean_square + take3 * ahead * ahead;
    previous = g;
    const T step =
        (rate * mean + rate_of_change * mean_change) / (std::sqrt(mean_square) * correction + eps);
    return (before * p - step) * after;
  }

  T beta1, take1, beta2, take2, beta3, take3, eps, before, after;
  T rate, rate_of_change, correction;
  bool first;
};

}  // namespace

void declare(DeckTable& table, AdanOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas,
                "decay of the running means of the gradient, of its change and of its square");
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay,
                       "decoupled: a step divides the parameter by 1 + lr weight_decay");
  table.key(
      "no_prox", options.no_prox,
      {.doc = "decay as adamw: multiply the parameter by 1 - lr * weight_decay before the step"});
}

Adan::Adan(std::vector<nn::NamedParameter> parameters, const AdanOptions& options,
           const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "Adan",
                   .slots = {{"exp_avg"}, {"exp_avg_diff"}, {"exp_avg_sq"}, {"previous_grad"}},
                   .reads_step_tensors = true}) {}

void Adan::update(const Run& run) {
  update_elements<4>("lockstep::adan", run,
                     [&]<class T>() { return AdanRule<T>(run, options_of(run)); });
}

}  // namespace lockstep::optim
