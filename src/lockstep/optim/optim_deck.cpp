#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/layer_wise.hpp>
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
               {{"sgd", Kind::sgd},
                {"adam", Kind::adam},
                {"adamw", Kind::adamw},
                {"lars", Kind::lars},
                {"lamb", Kind::lamb}},
               "which optimizer");
  if (options.kind == Kind::adamw) options.weight_decay = AdamWOptions().weight_decay;
  if (options.kind == Kind::lars) options.momentum = LarsOptions().momentum;
  if (options.kind == Kind::lamb) options.eps = LambOptions().eps;
  table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0});
  table.key("momentum", options.momentum,
            {.doc = "sgd, lars: how much of the last step is kept; lars: 0.9 if not given",
             .min = 0.0,
             .max = 1.0});
  table.key("dampening", options.dampening,
            {.doc = "sgd: how much of the gradient is held back", .min = 0.0, .max = 1.0});
  table.key("nesterov", options.nesterov,
            {.doc = "sgd: look ahead along the momentum; needs momentum above 0 and dampening 0"});
  table.key("weight_decay", options.weight_decay,
            {.doc = "factor of the parameter that is added to its gradient (sgd, adam, lars) or to "
                    "its step of rate 1 (adamw, lamb); adamw: 0.01 if not given",
             .min = 0.0});
  table.key("betas", options.betas,
            {.doc = "adam, adamw, lamb: how much the running means of the gradient and of its "
                    "square keep",
             .min = 0.0,
             .max = 1.0});
  table.key("eps", options.eps,
            {.doc = "adam, adamw, lamb: added to the root of the mean square; lamb: 1e-6 if not "
                    "given",
             .min = 0.0});
  table.key("amsgrad", options.amsgrad,
            {.doc = "adam, adamw: divide by the root of the largest mean square so far"});
  table.key("trust_coefficient", options.trust_coefficient,
            {.doc = "lars: length of a layer's step over the layer's norm, at rate 1", .min = 0.0});
  table.key("not_adapted", options.not_adapted,
            {.doc = "lars, lamb: patterns of the names, such as [\"*.bias\"], that are stepped "
                    "without the layer's trust ratio"});
  table.key("clip_norm", options.clip_norm,
            {.doc = "largest norm of all gradients together; 0: no limit", .min = 0.0});
  table.key("clip_value", options.clip_value,
            {.doc = "largest size of an element of a gradient; 0: no limit", .min = 0.0});
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
  if (options.clip_norm > 0.0 && options.clip_value > 0.0) {
    throw InputError(fmt::format(
        "{}: optimizer.clip_norm and optimizer.clip_value (set at {}) clip the same gradients "
        "twice. Keep one of them.",
        deck.where("optimizer", "clip_norm"), deck.where("optimizer", "clip_value")));
  }
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
  table.key(
      "cycle_momentum", options.cycle_momentum,
      {.doc =
           "one_cycle: move the momentum (of sgd and lars; else the first beta) against the rate"});
  table.key("base_momentum", options.base_momentum,
            {.doc = "one_cycle: momentum at the highest rate", .min = 0.01, .max = 0.9999});
  table.key("max_momentum", options.max_momentum,
            {.doc = "one_cycle: momentum at the lowest rate", .min = 0.01, .max = 0.9999});
}

}  // namespace lockstep::optim
