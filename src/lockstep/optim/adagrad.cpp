#include <lockstep/optim/adagrad.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct AdagradRule : WithDecay<T> {
  using WithDecay<T>::decay;

  AdagradRule(const Run& run, const AdagradOptions& options)
      : WithDecay<T>{Decay<T>(run)},
        eps(rounded<T>(options.eps)),
        rate(rounded<T>(run.lr / (1.0 + static_cast<double>(run.step - 1) * options.lr_decay))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& sum) const {
    g = decay.gradient(p, g);
    sum += g * g;
    return p - rate * g / (std::sqrt(sum) + eps);
  }

  T eps, rate;
};

void validate(const char* name, const AdagradOptions& options) {
  expect_not_negative(name, "lr_decay", options.lr_decay);
  expect_not_negative(name, "initial_accumulator_value", options.initial_accumulator_value);
}

}  // namespace

void declare(DeckTable& table, AdagradOptions& options) {
  declare_lr(table, options.lr);
  table.key("lr_decay", options.lr_decay,
            {.doc = "the rate is divided by 1 + lr_decay * steps done", .min = 0.0});
  declare_weight_decay(table, options.weight_decay, l2_decay);
  table.key("initial_accumulator_value", options.initial_accumulator_value,
            {.doc = "initial sum of squares", .min = 0.0});
  declare_eps(table, options.eps, "added to the root of the sum of squares");
}

Adagrad::Adagrad(std::vector<nn::NamedParameter> parameters, const AdagradOptions& options,
                 const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "Adagrad",
                   .slots = {{"sum"}},
                   .reads_step_tensors = true,
                   .validate = validate}) {
  const StateDict state = state_dict();
  const auto of_each = group_of_each(this->parameters(), groups);
  for (std::size_t i = 0; i < of_each.size(); ++i) {
    const double initial = options_of_group(of_each[i]).initial_accumulator_value;
    if (initial != 0.0) state.find(this->parameters()[i].name + "/sum")->tensor.fill(initial);
  }
}

void Adagrad::update(const Run& run) {
  update_elements<1>("lockstep::adagrad", run,
                     [&]<class T>() { return AdagradRule<T>(run, options_of(run)); });
}

}  // namespace lockstep::optim
