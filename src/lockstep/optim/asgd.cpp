#include <lockstep/optim/asgd.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct AsgdRule : WithDecay<T> {
  using WithDecay<T>::decay;

  AsgdRule(const Run& run, const AsgdOptions& options) : WithDecay<T>{Decay<T>(run)} {
    const double before = static_cast<double>(run.step - 1);
    const double rate = run.lr / std::pow(1.0 + options.lambd * run.lr * before, options.alpha);
    const double counted = before - options.t0;
    keep = rounded<T>(1.0 - options.lambd * rate);
    eta = rounded<T>(rate);
    mu = rounded<T>(counted > 1.0 ? 1.0 / counted : 1.0);
  }

  KOKKOS_FUNCTION T operator()(T p, T g, T& average) const {
    g = decay.gradient(p, g);
    p = keep * p - eta * g;
    average = mu == T{1} ? p : average + mu * (p - average);
    return p;
  }

  T keep, eta, mu;
};

void validate(const char* name, const AsgdOptions& options) {
  expect_not_negative(name, "lambd", options.lambd);
  expect_not_negative(name, "alpha", options.alpha);
  expect_not_negative(name, "t0", options.t0);
}

}  // namespace

void declare(DeckTable& table, AsgdOptions& options) {
  declare_lr(table, options.lr);
  table.key("lambd", options.lambd, {.doc = "decay of the parameters", .min = 0.0});
  table.key("alpha", options.alpha, {.doc = "power of the rate's decay", .min = 0.0});
  table.key("t0", options.t0, {.doc = "updates before averaging starts", .min = 0.0});
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

ASGD::ASGD(std::vector<nn::NamedParameter> parameters, const AsgdOptions& options,
           const std::vector<ParameterGroup>& groups)
    : OptimizerOf(
          std::move(parameters), options, groups,
          {.name = "ASGD", .slots = {{"ax"}}, .reads_step_tensors = true, .validate = validate}) {}

void ASGD::update(const Run& run) {
  update_elements<1>("lockstep::asgd", run,
                     [&]<class T>() { return AsgdRule<T>(run, options_of(run)); });
}

}  // namespace lockstep::optim
