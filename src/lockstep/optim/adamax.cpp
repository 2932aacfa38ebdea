#include <lockstep/optim/adamax.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct AdamaxRule : WithDecay<T> {
  using WithDecay<T>::decay;

  AdamaxRule(const Run& run, const AdamaxOptions& options)
      : WithDecay<T>{Decay<T>(run)},
        take1(rounded<T>(1.0 - options.betas[0])),
        beta2(rounded<T>(options.betas[1])),
        eps(rounded<T>(options.eps)),
        step_size(rounded<T>(run.lr / bias_correction(options.betas[0], run))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& norm) const {
    g = decay.gradient(p, g);
    mean += take1 * (g - mean);
    const T kept = beta2 * norm, size = std::fabs(g) + eps;
    norm = size < kept ? kept : size;  // keeps a NaN
    return p - step_size * mean / norm;
  }

  T take1, beta2, eps, step_size;
};

}  // namespace

void declare(DeckTable& table, AdamaxOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas,
                "decay of the running mean of the gradient and of its running maximum");
  declare_eps(table, options.eps, "added to the gradient's absolute value");
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

Adamax::Adamax(std::vector<nn::NamedParameter> parameters, const AdamaxOptions& options,
               const std::vector<ParameterGroup>& groups)
    : OptimizerOf(
          std::move(parameters), options, groups,
          {.name = "Adamax", .slots = {{"exp_avg"}, {"exp_inf"}}, .reads_step_tensors = true}) {}

void Adamax::update(const Run& run) {
  update_elements<2>("lockstep::adamax", run,
                     [&]<class T>() { return AdamaxRule<T>(run, options_of(run)); });
}

}  // namespace lockstep::optim
