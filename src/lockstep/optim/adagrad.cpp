#include <lockstep/optim/adagrad.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/adagrad.hpp>

namespace lockstep::optim {
namespace {

const AdagradOptions& validated(const AdagradOptions& options) {
  expect_not_negative("Adagrad", "lr_decay", options.lr_decay);
  expect_not_negative("Adagrad", "weight_decay", options.weight_decay);
  expect_not_negative("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  expect_not_negative("Adagrad", "eps", options.eps);
  return options;
}

}  // namespace

void declare(DeckTable& table, AdagradOptions& options) {
  declare_lr(table, options.lr);
  table.key("lr_decay", options.lr_decay,
            {.doc = "the rate is divided by 1 + lr_decay times the steps before", .min = 0.0});
  declare_weight_decay(table, options.weight_decay, l2_decay);
  table.key("initial_accumulator_value", options.initial_accumulator_value,
            {.doc = "what the sums of squares begin with", .min = 0.0});
  declare_eps(table, options.eps, "added to the root of the sum of squares");
}

Adagrad::Adagrad(std::vector<nn::NamedParameter> parameters, const AdagradOptions& options,
                 const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"sum"}}, groups),
      options_("Adagrad", options, groups, validated) {
  const StateDict state = state_dict();
  const auto of_each = group_of_each(this->parameters(), groups);
  for (std::size_t i = 0; i < of_each.size(); ++i) {
    const double initial = options_[of_each[i]].initial_accumulator_value;
    if (initial != 0.0) state.find(this->parameters()[i].name + "/sum")->tensor.fill(initial);
  }
}

void Adagrad::update(const Run& run) {
  const AdagradOptions& options = options_[run.group];
  adagrad_update(run.parameter, run.gradient, run.slots[0],
                 {.lr = run.lr,
                  .lr_decay = options.lr_decay,
                  .weight_decay = run.weight_decay,
                  .eps = options.eps,
                  .step = run.step,
                  .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
