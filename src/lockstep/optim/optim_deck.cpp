#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/adamax.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/lion.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>
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

/// What the kind's own options have where they differ from OptimizerOptions.
void take_defaults_of_kind(OptimizerOptions& options) {
  using Kind = OptimizerOptions::Kind;
  switch (options.kind) {
    case Kind::sgd:
    case Kind::adam:
      break;
    case Kind::adamw:
      options.weight_decay = AdamWOptions().weight_decay;
      break;
    case Kind::lars:
      options.momentum = LarsOptions().momentum;
      break;
    case Kind::lamb:
      options.eps = LambOptions().eps;
      break;
    case Kind::rmsprop:
      options.lr = RmspropOptions().lr;
      break;
    case Kind::adagrad:
      options.lr = AdagradOptions().lr;
      options.eps = AdagradOptions().eps;
      break;
    case Kind::adadelta:
      options.lr = AdadeltaOptions().lr;
      options.eps = AdadeltaOptions().eps;
      break;
    case Kind::adamax:
      options.lr = AdamaxOptions().lr;
      break;
    case Kind::nadam:
      options.lr = NAdamOptions().lr;
      break;
    case Kind::radam:
      options.lr = RAdamOptions().lr;
      break;
    case Kind::asgd:
      options.lr = AsgdOptions().lr;
      options.alpha = AsgdOptions().alpha;
      break;
    case Kind::lion:
      options.lr = LionOptions().lr;
      options.betas = {LionOptions().betas[0], LionOptions().betas[1]};
      break;
  }
}

}  // namespace

void declare(DeckTable& table, OptimizerOptions& options) {
  using Kind = OptimizerOptions::Kind;
  table.choice("kind", options.kind,
               {{"sgd", Kind::sgd},
                {"adam", Kind::adam},
                {"adamw", Kind::adamw},
                {"lars", Kind::lars},
                {"lamb", Kind::lamb},
                {"rmsprop", Kind::rmsprop},
                {"adagrad", Kind::adagrad},
                {"adadelta", Kind::adadelta},
                {"adamax", Kind::adamax},
                {"nadam", Kind::nadam},
                {"radam", Kind::radam},
                {"asgd", Kind::asgd},
                {"lion", Kind::lion}},
               "which optimizer");
  take_defaults_of_kind(options);
  table.key(
      "lr", options.lr,
      {.doc = "learning rate; if not given, rmsprop, adagrad, asgd: 0.01, adadelta: 1, adamax, "
              "nadam: 0.002, lion: 1e-4",
       .min = 0.0});
  table.key("momentum", options.momentum,
            {.doc = "sgd, lars, rmsprop: how much of the last step is kept; lars: 0.9 if not given",
             .min = 0.0,
             .max = 1.0});
  table.key("dampening", options.dampening,
            {.doc = "sgd: how much of the gradient is held back", .min = 0.0, .max = 1.0});
  table.key("nesterov", options.nesterov,
            {.doc = "sgd: look ahead along the momentum; needs momentum above 0 and dampening 0"});
  table.key(
      "weight_decay", options.weight_decay,
      {.doc = "factor of the parameter that is added to its gradient or, by adamw, lamb, lion and "
              "where decoupled_weight_decay says so, to its step of rate 1; adamw: 0.01 if "
              "not given",
       .min = 0.0});
  table.key("betas", options.betas,
            {.doc = "adam, adamw, lamb, adamax, nadam, radam: how much the running means of the "
                    "gradient and of its square keep; lion: of the step's mean and of the mean "
                    "that is kept, [0.9, 0.99] if not given",
             .min = 0.0,
             .max = 1.0});
  table.key(
      "eps", options.eps,
      {.doc = "all but sgd, lars, asgd and lion: added to the root of the mean square (adadelta: "
              "under it); if not given, lamb, adadelta: 1e-6, adagrad: 1e-10",
       .min = 0.0});
  table.key("amsgrad", options.amsgrad,
            {.doc = "adam, adamw: divide by the root of the largest mean square so far"});
  table.key(
      "alpha", options.alpha,
      {.doc = "rmsprop: how much the mean square keeps; asgd: power of the rate's decay, 0.75 "
              "if not given",
       .min = 0.0});
  table.key("centered", options.centered,
            {.doc = "rmsprop: divide by the deviation from the mean gradient"});
  table.key(
      "lr_decay", options.lr_decay,
      {.doc = "adagrad: the rate is divided by 1 + lr_decay times the steps before", .min = 0.0});
  table.key("initial_accumulator_value", options.initial_accumulator_value,
            {.doc = "adagrad: what the sums of squares begin with", .min = 0.0});
  table.key("rho", options.rho,
            {.doc = "adadelta: how much the mean squares keep", .min = 0.0, .max = 1.0});
  table.key("momentum_decay", options.momentum_decay,
            {.doc = "nadam: how fast its momentum rises to the first beta", .min = 0.0});
  table.key("decoupled_weight_decay", options.decoupled_weight_decay,
            {.doc = "nadam, radam: weight_decay shrinks the parameter, as adamw's"});
  table.key("lambd", options.lambd, {.doc = "asgd: how fast the parameters decay", .min = 0.0});
  table.key("t0", options.t0, {.doc = "asgd: updates before averaging begins", .min = 0.0});
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
                {"cosine_restarts", Kind::cosine_restarts},
                {"polynomial", Kind::polynomial},
                {"warmup_cosine", Kind::warmup_cosine},
                {"one_cycle", Kind::one_cycle},
                {"cyclic", Kind::cyclic},
                {"plateau", Kind::plateau}},
               "how the learning rate moves");
  if (options.kind == Kind::cyclic) {  // torch.optim.lr_scheduler.CyclicLR's
    options.gamma = 1.0;
    options.base_momentum = 0.8;
    options.max_momentum = 0.9;
  }
  table.choice("unit", options.unit, {{"epoch", Unit::epoch}, {"step", Unit::step}},
               "what step_size, milestones, t_max, warmup and total count");
  table.key("step_size", options.step_size,
            {.doc = "step: units between two falls", .unit = "schedule.unit", .min = 1});
  table.key("gamma", options.gamma,
            {.doc = "step, multistep, exponential: factor of each fall; cyclic with mode "
                    "exp_range: of the height a unit, 1 if not given",
             .min = 0.0,
             .above_min = true});
  table.key("milestones", options.milestones,
            {.doc = "multistep: units after which the rate falls, ascending",
             .unit = "schedule.unit",
             .min = 1});
  table.key("t_max", options.t_max,
            {.doc = "cosine: units from optimizer.lr down to eta_min",
             .unit = "schedule.unit",
             .min = 1});
  table.key("eta_min", options.eta_min,
            {.doc = "cosine, cosine_restarts: the lowest learning rate", .min = 0.0});
  table.key(
      "t_0", options.t_0,
      {.doc = "cosine_restarts: units up to the first restart", .unit = "schedule.unit", .min = 1});
  table.key("t_mult", options.t_mult,
            {.doc = "cosine_restarts: how many times as long as the last each run is", .min = 1});
  table.key("power", options.power, {.doc = "polynomial: of what is left", .min = 0.0});
  table.key("warmup", options.warmup,
            {.doc = "units of linear warm-up: part of the total of warmup_cosine, before the "
                    "others; not for one_cycle",
             .unit = "schedule.unit",
             .min = 0});
  table.key("start_factor", options.start_factor,
            {.doc = "warmup of all but warmup_cosine: first rate over optimizer.lr",
             .min = 0.0,
             .max = 1.0});
  table.key(
      "total", options.total,
      {.doc = "warmup_cosine, one_cycle: units of the whole schedule; polynomial: of the fall "
              "behind the warm-up; 0: of the whole run",
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
            {.doc = "one_cycle, cyclic: move the momentum (of sgd, lars and rmsprop; else the "
                    "first beta) against the rate"});
  table.key("base_momentum", options.base_momentum,
            {.doc = "one_cycle, cyclic: momentum at the highest rate; cyclic: 0.8 if not given",
             .min = 0.01,
             .max = 0.9999});
  table.key("max_momentum", options.max_momentum,
            {.doc = "one_cycle, cyclic: momentum at the lowest rate; cyclic: 0.9 if not given",
             .min = 0.01,
             .max = 0.9999});
  table.key("max_lr", options.max_lr,
            {.doc = "cyclic: the highest rate; optimizer.lr is the lowest", .min = 0.0});
  table.key("step_size_up", options.step_size_up,
            {.doc = "cyclic: units in which the rate rises", .unit = "schedule.unit", .min = 1});
  table.key(
      "step_size_down", options.step_size_down,
      {.doc = "cyclic: units in which it falls; 0: as many", .unit = "schedule.unit", .min = 0});
  using Mode = ScheduleOptions::CycleMode;
  table.choice("mode", options.mode,
               {{"triangular", Mode::triangular},
                {"triangular2", Mode::triangular2},
                {"exp_range", Mode::exp_range}},
               "cyclic: cycles keep their height, halve it, or lose it by gamma a unit");
  table.key("metric", options.metric,
            {.doc = "plateau: the figure of each epoch's evaluation that decides"});
  PlateauOptions& plateau = options.plateau;
  table.key("factor", plateau.factor,
            {.doc = "plateau: factor of each fall", .min = 1e-6, .max = 0.999999});
  table.key("patience", plateau.patience,
            {.doc = "plateau: epochs without a better figure that are borne", .min = 0});
  table.key("threshold", plateau.threshold,
            {.doc = "plateau: how much better counts as better", .min = 0.0});
  table.choice("threshold_mode", plateau.relative, {{"rel", true}, {"abs", false}},
               "plateau: threshold is a share of the best figure, or an amount");
  table.key("cooldown", plateau.cooldown,
            {.doc = "plateau: epochs after a fall that are not counted", .min = 0});
  table.key("min_lr", plateau.min_lr, {.doc = "plateau: the lowest rate", .min = 0.0});
}

}  // namespace lockstep::optim
