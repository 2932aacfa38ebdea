#include <lockstep/optim/adam.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

bool is_amsgrad(const AdamOptions& options) { return options.amsgrad; }

template <class T>
struct AdamRule : WithDecay<T> {
  using WithDecay<T>::decay;

  AdamRule(const Run& run, const AdamOptions& options, bool decoupled)
      : WithDecay<T>{Decay<T>(run, decoupled)},
        moments(options.betas),
        eps(rounded<T>(options.eps)),
        step_size(rounded<T>(run.lr / bias_correction(options.betas[0], run))),
        correction(rounded<T>(1.0 / std::sqrt(bias_correction(options.betas[1], run)))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& square) const {
    moments.add(decay.gradient(p, g), mean, square);
    return stepped(p, mean, square);
  }
  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& square, T& largest) const {
    moments.add(decay.gradient(p, g), mean, square);
    largest = square < largest ? largest : square;  // keeps a NaN
    return stepped(p, mean, largest);
  }
  KOKKOS_FUNCTION T stepped(T p, T mean, T square) const {
    return decay.keep * p - step_size * mean / (std::sqrt(square) * correction + eps);
  }

  Moments<T> moments;
  T eps, step_size, correction;
};

}  // namespace

void declare(DeckTable& table, AdamOptions& options) {
  declare_adam_keys(table, options, l2_decay);
  declare_amsgrad(table, options.amsgrad);
}

void declare(DeckTable& table, AdamWOptions& options) {
  declare_adam_keys(table, options, decoupled_decay);
  declare_amsgrad(table, options.amsgrad);
}

Adam::Adam(std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Adam("Adam", std::move(parameters), options, false, groups) {}

Adam::Adam(const char* name, std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
           bool decoupled_weight_decay, const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = name,
                   .slots = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", is_amsgrad}},
                   .reads_step_tensors = true}),
      decoupled_weight_decay_(decoupled_weight_decay) {}

void Adam::update(const Run& run) {
  const auto rule = [&]<class T>() {
    return AdamRule<T>(run, options_of(run), decoupled_weight_decay_);
  };
  if (options_of(run).amsgrad) {
    update_elements<3>("lockstep::amsgrad", run, rule);
  } else {
    update_elements<2>("lockstep::adam", run, rule);
  }
}

AdamW::AdamW(std::vector<nn::NamedParameter> parameters, const AdamWOptions& options,
             const std::vector<ParameterGroup>& groups)
    : Adam("AdamW", std::move(parameters),
           {.lr = options.lr,
            .betas = options.betas,
            .eps = options.eps,
            .weight_decay = options.weight_decay,
            .amsgrad = options.amsgrad},
           true, groups) {}

}  // namespace lockstep::optim
