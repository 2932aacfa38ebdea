#include <lockstep/optim/nadam.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

/// Not inlined, so that its result is rounded in the same way everywhere.
[[gnu::noinline]] double mu(const NAdamOptions& options, std::int64_t step) {
  const double decay = std::pow(0.96, static_cast<double>(step) * options.momentum_decay);
  return options.betas[0] * (1.0 - 0.5 * decay);
}

template <class T>
struct NAdamRule : WithDecay<T> {
  using WithDecay<T>::decay;

  NAdamRule(const Run& run, const NAdamOptions& options, double mu_product)
      : WithDecay<T>{Decay<T>(run, options.decoupled_weight_decay)},
        moments(options.betas),
        eps(rounded<T>(options.eps)),
        correction(rounded<T>(1.0 / std::sqrt(bias_correction(options.betas[1], run)))) {
    const double now = mu(options, run.step), next = mu(options, run.step + 1);
    of_gradient = rounded<T>(run.lr * (1.0 - now) / (1.0 - mu_product));
    of_mean = rounded<T>(run.lr * next / (1.0 - mu_product * next));
  }

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& square) const {
    g = decay.gradient(p, g);
    moments.add(g, mean, square);
    return decay.keep * p -
           (of_gradient * g + of_mean * mean) / (std::sqrt(square) * correction + eps);
  }

  Moments<T> moments;
  T eps, correction, of_gradient, of_mean;
};

void validate(const char* name, const NAdamOptions& options) {
  expect_not_negative(name, "momentum_decay", options.momentum_decay);
}

}  // namespace

void declare(DeckTable& table, NAdamOptions& options) {
  declare_adam_keys(table, options, either_decay);
  table.key("momentum_decay", options.momentum_decay,
            {.doc = "speed at which momentum rises to the first beta", .min = 0.0});
  declare_decoupled_weight_decay(table, options.decoupled_weight_decay);
}

NAdam::NAdam(std::vector<nn::NamedParameter> parameters, const NAdamOptions& options,
             const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "NAdam",
                   .slots = {{"exp_avg"}, {"exp_avg_sq"}},
                   .reads_step_tensors = true,
                   .validate = validate}),
      products_(groups.size() + 1) {}

void NAdam::update(const Run& run) {
  const double product = mu_product(run.group, run.step);
  update_elements<2>("lockstep::nadam", run,
                     [&]<class T>() { return NAdamRule<T>(run, options_of(run), product); });
}

double NAdam::mu_product(std::size_t group, std::int64_t step) {
  Product& known = products_[group];
  if (step < known.multiplied) known = {};
  for (; known.multiplied < step; ++known.multiplied)
    known.product *= mu(options_of_group(group), known.multiplied + 1);
  return known.product;
}

}  // namespace lockstep::optim
