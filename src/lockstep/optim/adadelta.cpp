#include <lockstep/optim/adadelta.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct AdadeltaRule : WithDecay<T> {
  using WithDecay<T>::decay;

  AdadeltaRule(const Run& run, const AdadeltaOptions& options)
      : WithDecay<T>{Decay<T>(run)},
        keep(rounded<T>(options.rho)),
        take(rounded<T>(1.0 - options.rho)),
        eps(rounded<T>(options.eps)),
        lr(rounded<T>(run.lr)) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& square, T& delta) const {
    g = decay.gradient(p, g);
    square = keep * square + take * g * g;
    const T step = std::sqrt(delta + eps) / std::sqrt(square + eps) * g;
    delta = keep * delta + take * step * step;
    return p - lr * step;
  }

  T keep, take, eps, lr;
};

void validate(const char* name, const AdadeltaOptions& options) {
  expect_below_one(name, "rho", options.rho);
}

}  // namespace

void declare(DeckTable& table, AdadeltaOptions& options) {
  declare_lr(table, options.lr);
  table.key("rho", options.rho,
            {.doc = "decay of the running mean squares", .min = 0.0, .max = 1.0});
  declare_eps(table, options.eps, "added to the mean squares, under their roots");
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

Adadelta::Adadelta(std::vector<nn::NamedParameter> parameters, const AdadeltaOptions& options,
                   const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "Adadelta",
                   .slots = {{"square_avg"}, {"acc_delta"}},
                   .reads_step_tensors = true,
                   .validate = validate}) {}

void Adadelta::update(const Run& run) {
  update_elements<2>("lockstep::adadelta", run,
                     [&]<class T>() { return AdadeltaRule<T>(run, options_of(run)); });
}

}  // namespace lockstep::optim
