#include <lockstep/optim/lion.hpp>

#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct LionRule : WithDecay<T> {
  using WithDecay<T>::decay;

  LionRule(const Run& run, const LionOptions& options)
      : WithDecay<T>{Decay<T>(run, true)},
        lr(rounded<T>(run.lr)),
        beta1(rounded<T>(options.betas[0])),
        take1(rounded<T>(1.0 - options.betas[0])),
        beta2(rounded<T>(options.betas[1])),
        take2(rounded<T>(1.0 - options.betas[1])) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean) const {
    g = decay.factor * g;
    const T c = beta1 * mean + take1 * g;
    mean = beta2 * mean + take2 * g;
    // c - c is 0, or NaN if c is NaN.
    const T direction = c > T{0} ? T{1} : (c < T{0} ? T{-1} : c - c);
    return decay.keep * p - lr * direction;
  }

  T lr, beta1, take1, beta2, take2;
};

}  // namespace

void declare(DeckTable& table, LionOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas,
                "decay of the mean used by the step, and of the mean kept between steps");
  declare_weight_decay(table, options.weight_decay, decoupled_decay);
}

Lion::Lion(std::vector<nn::NamedParameter> parameters, const LionOptions& options,
           const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "Lion", .slots = {{"exp_avg"}}, .reads_step_tensors = true}) {}

void Lion::update(const Run& run) {
  update_elements<1>("lockstep::lion", run,
                     [&]<class T>() { return LionRule<T>(run, options_of(run)); });
}

}  // namespace lockstep::optim
