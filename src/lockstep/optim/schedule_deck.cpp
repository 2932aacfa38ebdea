#include <lockstep/deck/kinds.hpp>
#include <lockstep/optim/schedule.hpp>

namespace lockstep::optim {
namespace {

constexpr std::string_view unit = "schedule.unit";

// Keys that several kinds have.

void declare_warmup(DeckTable& table, ScheduleOptions& options) {
  table.key("warmup", options.warmup,
            {.doc = "units of linear warm-up, before the schedule", .unit = unit, .min = 0});
  table.key("start_factor", options.start_factor,
            {.doc = "first rate of the warm-up over optimizer.lr", .min = 0.0, .max = 1.0});
}

void declare_gamma(DeckTable& table, ScheduleOptions& options, std::string_view doc) {
  table.key("gamma", options.gamma, {.doc = doc, .min = 0.0, .above_min = true});
}

void declare_eta_min(DeckTable& table, ScheduleOptions& options) {
  table.key("eta_min", options.eta_min, {.doc = "the lowest learning rate", .min = 0.0});
}

void declare_total(DeckTable& table, ScheduleOptions& options, std::string_view doc) {
  table.key("total", options.total, {.doc = doc, .unit = unit, .min = 0});
}

void declare_cycle_of_momentum(DeckTable& table, ScheduleOptions& options) {
  table.key("cycle_momentum", options.cycle_momentum,
            {.doc = "move the momentum (of sgd, lars and rmsprop; else the first beta) against the "
                    "rate"});
  table.key("base_momentum", options.base_momentum,
            {.doc = "momentum at the highest rate", .min = 0.01, .max = 0.9999});
  table.key("max_momentum", options.max_momentum,
            {.doc = "momentum at the lowest rate", .min = 0.01, .max = 0.9999});
}

// The keys of each kind.

void declare_step(DeckTable& table, ScheduleOptions& options) {
  table.key("step_size", options.step_size,
            {.doc = "units between two falls", .unit = unit, .min = 1});
  declare_gamma(table, options, "factor of each fall");
  declare_warmup(table, options);
}

void declare_multistep(DeckTable& table, ScheduleOptions& options) {
  table.key("milestones", options.milestones,
            {.doc = "units after which the rate falls, ascending", .unit = unit, .min = 1});
  declare_gamma(table, options, "factor of each fall");
  declare_warmup(table, options);
}

void declare_exponential(DeckTable& table, ScheduleOptions& options) {
  declare_gamma(table, options, "factor of each unit");
  declare_warmup(table, options);
}

void declare_cosine(DeckTable& table, ScheduleOptions& options) {
  table.key("t_max", options.t_max,
            {.doc = "units from optimizer.lr down to eta_min", .unit = unit, .min = 1});
  declare_eta_min(table, options);
  declare_warmup(table, options);
}

void declare_cosine_restarts(DeckTable& table, ScheduleOptions& options) {
  table.key("t_0", options.t_0, {.doc = "units up to the first restart", .unit = unit, .min = 1});
  table.key("t_mult", options.t_mult,
            {.doc = "how many times as long as the last each run is", .min = 1});
  declare_eta_min(table, options);
  declare_warmup(table, options);
}

void declare_polynomial(DeckTable& table, ScheduleOptions& options) {
  table.key("power", options.power, {.doc = "of what is left", .min = 0.0});
  declare_total(table, options, "units of the fall behind the warm-up; 0: of the whole run");
  declare_warmup(table, options);
}

void declare_warmup_cosine(DeckTable& table, ScheduleOptions& options) {
  table.key("warmup", options.warmup,
            {.doc = "units of linear warm-up, part of the total", .unit = unit, .min = 0});
  declare_total(table, options, "units of the whole schedule; 0: of the whole run");
  table.key("min_factor", options.min_factor,
            {.doc = "last rate over optimizer.lr", .min = 0.0, .max = 1.0});
}

void declare_one_cycle(DeckTable& table, ScheduleOptions& options) {
  declare_total(table, options, "units of the whole schedule; 0: of the whole run");
  table.key("pct_start", options.pct_start,
            {.doc = "share of the total in which the rate rises",
             .min = 0.0,
             .max = 1.0,
             .above_min = true});
  table.key("div_factor", options.div_factor,
            {.doc = "optimizer.lr, the highest rate, over the first", .min = 1.0});
  table.key("final_div_factor", options.final_div_factor,
            {.doc = "first rate over the last", .min = 1.0});
  declare_cycle_of_momentum(table, options);
}

void declare_cyclic(DeckTable& table, ScheduleOptions& options) {
  options.gamma = 1.0;
  options.base_momentum = 0.8;
  options.max_momentum = 0.9;
  table.key("max_lr", options.max_lr,
            {.doc = "the highest rate; optimizer.lr is the lowest", .min = 0.0});
  table.key("step_size_up", options.step_size_up,
            {.doc = "units in which the rate rises", .unit = unit, .min = 1});
  table.key("step_size_down", options.step_size_down,
            {.doc = "units in which it falls; 0: as many", .unit = unit, .min = 0});
  using Mode = ScheduleOptions::CycleMode;
  table.choice("mode", options.mode,
               {{"triangular", Mode::triangular},
                {"triangular2", Mode::triangular2},
                {"exp_range", Mode::exp_range}},
               "cycles keep their height, halve it, or lose it by gamma a unit");
  declare_gamma(table, options, "mode exp_range: factor of the height a unit");
  declare_cycle_of_momentum(table, options);
  declare_warmup(table, options);
}

void declare_plateau(DeckTable& table, ScheduleOptions& options) {
  table.key("metric", options.metric,
            {.doc = "the figure of each epoch's evaluation that decides"});
  PlateauOptions& plateau = options.plateau;
  table.key("factor", plateau.factor, {.doc = "factor of each fall", .min = 1e-6, .max = 0.999999});
  table.key("patience", plateau.patience,
            {.doc = "epochs without a better figure that are borne", .min = 0});
  table.key("threshold", plateau.threshold,
            {.doc = "how much better counts as better", .min = 0.0});
  table.choice("threshold_mode", plateau.relative, {{"rel", true}, {"abs", false}},
               "threshold is a share of the best figure, or an amount");
  table.key("cooldown", plateau.cooldown,
            {.doc = "epochs after a fall that are not counted", .min = 0});
  table.key("min_lr", plateau.min_lr, {.doc = "the lowest rate", .min = 0.0});
  declare_warmup(table, options);
}

}  // namespace

void declare(DeckTable& table, ScheduleOptions& options) {
  using Kind = ScheduleOptions::Kind;
  using Unit = ScheduleOptions::Unit;
  declare_kind(table, options, &ScheduleOptions::kind, "how the learning rate moves",
               {{"constant", Kind::constant, "the rate stays", declare_warmup},
                {"step", Kind::step, "StepLR", declare_step},
                {"multistep", Kind::multistep, "MultiStepLR", declare_multistep},
                {"exponential", Kind::exponential, "ExponentialLR", declare_exponential},
                {"cosine", Kind::cosine, "CosineAnnealingLR", declare_cosine},
                {"cosine_restarts", Kind::cosine_restarts, "CosineAnnealingWarmRestarts",
                 declare_cosine_restarts},
                {"polynomial", Kind::polynomial, "PolynomialLR", declare_polynomial},
                {"warmup_cosine", Kind::warmup_cosine, "up by equal steps, then down half a cosine",
                 declare_warmup_cosine},
                {"one_cycle", Kind::one_cycle, "OneCycleLR", declare_one_cycle},
                {"cyclic", Kind::cyclic, "CyclicLR", declare_cyclic},
                {"plateau", Kind::plateau, "ReduceLROnPlateau", declare_plateau}});
  table.choice("unit", options.unit, {{"epoch", Unit::epoch}, {"step", Unit::step}},
               "what lengths of the schedule count");
}

}  // namespace lockstep::optim
