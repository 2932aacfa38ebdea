#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/schedule.hpp>

namespace lockstep::optim {
namespace {

/// `count` of list `key` must be `wanted`.
void expect_length(const Deck& deck, const char* key, std::size_t count, std::size_t wanted,
                   std::string_view why) {
  if (count == wanted) return;
  throw InputError(fmt::format("{}: optimizer.{} has {} entries, but must have {}: {}.",
                               deck.where("optimizer", key), key, count, wanted, why));
}

}  // namespace

void declare(DeckTable& table, OptimizerOptions& options) {
  using Kind = OptimizerOptions::Kind;
  table.choice("kind", options.kind,
               {{"sgd", Kind::sgd}, {"adam", Kind::adam}, {"adamw", Kind::adamw}},
               "which optimizer");
  table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0});
  table.key("momentum", options.momentum,
            {.doc = "how much of the last step is kept (sgd)", .min = 0.0, .max = 1.0});
  table.key("dampening", options.dampening,
            {.doc = "how much of the gradient is held back (sgd)", .min = 0.0, .max = 1.0});
  table.key("nesterov", options.nesterov,
            {.doc = "look ahead along the momentum; needs momentum above 0 and dampening 0 (sgd)"});
  if (options.kind == Kind::adamw) options.weight_decay = AdamWOptions().weight_decay;
  table.key("weight_decay", options.weight_decay,
            {.doc = "factor of the parameter that is added to its gradient (L2); adamw: by which a "
                    "step of rate 1 shrinks it, 0.01 where the deck is silent",
             .min = 0.0});
  table.key("betas", options.betas,
            {.doc = "shares that the running means of the gradient and of its square keep (adam, "
                    "adamw)",
             .min = 0.0,
             .max = 1.0});
  table.key("eps", options.eps,
            {.doc = "added to the root of the second moment (adam, adamw)", .min = 0.0});
  table.key("amsgrad", options.amsgrad,
            {.doc = "divide by the largest second moment so far (adam, adamw)"});
  table.key("group_pattern", options.group_pattern,
            {.doc = "parameter groups: patterns of names, such as [\"*.bias\", \"conv?.*\"]; a "
                    "parameter belongs to the first that fits"});
  table.key("group_lr_factor", options.group_lr_factor,
            {.doc = "factor of the learning rate in each group; empty: 1", .min = 0.0});
  table.key("group_weight_decay", options.group_weight_decay,
            {.doc = "weight decay in each group; empty: weight_decay", .min = 0.0});
}

OptimizerOptions read_optimizer_options(Deck& deck) {
  auto options = deck.read<OptimizerOptions>("optimizer");
  expect_length(deck, "betas", options.betas.size(), 2, "one for each running mean");
  const std::size_t groups = options.group_pattern.size();
  const auto expect_parallel = [&](const char* key, const std::vector<double>& list) {
    if (!list.empty())
      expect_length(deck, key, list.size(), groups, "one for each pattern in group_pattern");
  };
  expect_parallel("group_lr_factor", options.group_lr_factor);
  expect_parallel("group_weight_decay", options.group_weight_decay);
  return options;
}

void declare(DeckTable& table, ScheduleOptions& options) {
  using Kind = ScheduleOptions::Kind;
  using Unit = ScheduleOptions::Unit;
  table.choice("kind", options.kind,
               {{"constant", Kind::constant},
                {"step", Kind::step},
                {"multistep", Kind::multistep},
                {"exponential", Kind::exponential},
                {"cosine", Kind::cosine},
                {"warmup_cosine", Kind::warmup_cosine},
                {"one_cycle", Kind::one_cycle}},
               "how the learning rate moves");
  table.choice("unit", options.unit, {{"epoch", Unit::epoch}, {"step", Unit::step}},
               "what step_size, milestones, t_max, warmup and total count");
  table.key("step_size", options.step_size,
            {.doc = "step: units between two falls", .unit = "schedule.unit", .min = 1});
  table.key(
      "gamma", options.gamma,
      {.doc = "step, multistep, exponential: factor of each fall", .min = 0.0, .above_min = true});
  table.key("milestones", options.milestones,
            {.doc = "multistep: units after which the rate falls, ascending",
             .unit = "schedule.unit",
             .min = 1});
  table.key("t_max", options.t_max,
            {.doc = "cosine: units from optimizer.lr down to eta_min",
             .unit = "schedule.unit",
             .min = 1});
  table.key("eta_min", options.eta_min, {.doc = "cosine: the lowest learning rate", .min = 0.0});
  table.key("warmup", options.warmup,
            {.doc = "units of linear warm-up: part of the total of warmup_cosine, before the "
                    "others; not for one_cycle",
             .unit = "schedule.unit",
             .min = 0});
  table.key("start_factor", options.start_factor,
            {.doc = "warmup of all but warmup_cosine: first rate over optimizer.lr",
             .min = 0.0,
             .max = 1.0});
  table.key("total", options.total,
            {.doc = "warmup_cosine, one_cycle: units of the whole schedule; 0: of the whole run",
             .unit = "schedule.unit",
             .min = 0});
  table.key("min_factor", options.min_factor,
            {.doc = "warmup_cosine: last rate over optimizer.lr", .min = 0.0, .max = 1.0});
  table.key("pct_start", options.pct_start,
            {.doc = "one_cycle: share of the total in which the rate rises",
             .min = 0.0,
             .max = 1.0,
             .above_min = true});
  table.key("div_factor", options.div_factor,
            {.doc = "one_cycle: optimizer.lr, the highest rate, over the first", .min = 1.0});
  table.key("final_div_factor", options.final_div_factor,
            {.doc = "one_cycle: first rate over the last", .min = 1.0});
  table.key("cycle_momentum", options.cycle_momentum,
            {.doc = "one_cycle: move the momentum (adam, adamw: the first beta) against the rate"});
  table.key("base_momentum", options.base_momentum,
            {.doc = "one_cycle: momentum at the highest rate", .min = 0.01, .max = 0.9999});
  table.key("max_momentum", options.max_momentum,
            {.doc = "one_cycle: momentum at the lowest rate", .min = 0.01, .max = 0.9999});
}

}  // namespace lockstep::optim
