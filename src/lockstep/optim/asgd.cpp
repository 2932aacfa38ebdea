#include <lockstep/optim/asgd.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/asgd.hpp>

namespace lockstep::optim {
namespace {

const AsgdOptions& validated(const AsgdOptions& options) {
  expect_not_negative("ASGD", "lambd", options.lambd);
  expect_not_negative("ASGD", "alpha", options.alpha);
  expect_not_negative("ASGD", "t0", options.t0);
  expect_not_negative("ASGD", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, AsgdOptions& options) {
  declare_lr(table, options.lr);
  table.key("lambd", options.lambd, {.doc = "how fast the parameters decay", .min = 0.0});
  table.key("alpha", options.alpha, {.doc = "power of the rate's decay", .min = 0.0});
  table.key("t0", options.t0, {.doc = "updates before averaging begins", .min = 0.0});
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

ASGD::ASGD(std::vector<nn::NamedParameter> parameters, const AsgdOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"ax"}}, groups),
      options_("ASGD", options, groups, validated) {}

void ASGD::update(const Run& run) {
  const AsgdOptions& options = options_[run.group];
  asgd_update(run.parameter, run.gradient, run.slots[0],
              {.lr = run.lr,
               .lambd = options.lambd,
               .alpha = options.alpha,
               .t0 = options.t0,
               .weight_decay = run.weight_decay,
               .step = run.step,
               .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
