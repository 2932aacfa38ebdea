#include <lockstep/optim/sgd.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

bool has_momentum(const SgdOptions& options) { return options.momentum != 0.0; }

template <class T, bool nesterov = false>
struct SgdRule : WithDecay<T> {
  using WithDecay<T>::decay;

  SgdRule(const Run& run, const SgdOptions& options)
      : WithDecay<T>{Decay<T>(run)},
        lr(rounded<T>(run.lr)),
        momentum(rounded<T>(options.momentum)),
        take(T{1} - rounded<T>(options.dampening)),
        first(run.step == 1) {}

  KOKKOS_FUNCTION T operator()(T p, T g) const { return p - lr * decay.gradient(p, g); }
  KOKKOS_FUNCTION T operator()(T p, T g, T& buffer) const {
    g = decay.gradient(p, g);
    buffer = first ? g : momentum * buffer + take * g;
    return p - lr * (nesterov ? g + momentum * buffer : buffer);
  }

  T lr, momentum, take;
  bool first;
};

template <bool nesterov>
void update_with_momentum(const Run& run, const SgdOptions& options) {
  update_elements<1>("lockstep::sgd_momentum", run,
                     [&]<class T>() { return SgdRule<T, nesterov>(run, options); });
}

void validate(const char* name, const SgdOptions& options) {
  expect_hyper_parameter(std::isfinite(options.dampening), name, "dampening must be finite",
                         {options.dampening});
  expect_hyper_parameter(!options.nesterov || (options.momentum != 0.0 && options.dampening == 0.0),
                         name, "nesterov needs momentum above 0 and dampening 0",
                         {options.momentum, options.dampening});
}

}  // namespace

void declare(DeckTable& table, SgdOptions& options) {
  declare_lr(table, options.lr);
  declare_momentum(table, options.momentum);
  table.key("dampening", options.dampening,
            {.doc = "share of the gradient that momentum leaves out", .min = 0.0, .max = 1.0});
  table.key("nesterov", options.nesterov,
            {.doc = "Nesterov momentum; needs momentum above 0 and dampening 0"});
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

SGD::SGD(std::vector<nn::NamedParameter> parameters, const SgdOptions& options,
         const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "SGD",
                   .slots = {{"momentum_buffer", has_momentum}},
                   .reads_step_tensors = true,
                   .validate = validate}) {}

void SGD::update(const Run& run) {
  const SgdOptions& options = options_of(run);
  if (!has_momentum(options)) {
    update_elements<0>("lockstep::sgd", run, [&]<class T>() { return SgdRule<T>(run, options); });
  } else {
    options.nesterov ? update_with_momentum<true>(run, options)
                     : update_with_momentum<false>(run, options);
  }
}

}  // namespace lockstep::optim
