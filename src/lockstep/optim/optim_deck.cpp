#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/schedule.hpp>

namespace lockstep::optim {

void declare(DeckTable& table, SgdOptions& options) {
  table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0});
  table.key("momentum", options.momentum,
            {.doc = "how much of the last step is kept", .min = 0.0, .max = 1.0});
  table.key("dampening", options.dampening,
            {.doc = "how much of the gradient is held back", .min = 0.0, .max = 1.0});
  table.key("nesterov", options.nesterov,
            {.doc = "look ahead along the momentum; needs momentum above 0 and dampening 0"});
  table.key("weight_decay", options.weight_decay,
            {.doc = "factor of the parameter that is added to its gradient (L2)", .min = 0.0});
}

void declare(DeckTable& table, OptimizerOptions& options) {
  using Kind = OptimizerOptions::Kind;
  table.choice("kind", options.kind, {{"sgd", Kind::sgd}}, "which optimizer");
  declare(table, options.sgd);
}

void declare(DeckTable& table, ScheduleOptions& options) {
  using Kind = ScheduleOptions::Kind;
  using Unit = ScheduleOptions::Unit;
  table.choice("kind", options.kind,
               {{"constant", Kind::constant}, {"step", Kind::step}, {"cosine", Kind::cosine}},
               "how the learning rate falls");
  table.choice("unit", options.unit, {{"epoch", Unit::epoch}, {"step", Unit::step}},
               "what step_size and t_max count");
  table.key("step_size", options.step_size,
            {.doc = "step: units between two falls", .unit = "schedule.unit", .min = 1});
  table.key("gamma", options.gamma,
            {.doc = "step: factor of each fall", .min = 0.0, .above_min = true});
  table.key("t_max", options.t_max,
            {.doc = "cosine: units from optimizer.lr down to eta_min",
             .unit = "schedule.unit",
             .min = 1});
  table.key("eta_min", options.eta_min, {.doc = "cosine: the lowest learning rate", .min = 0.0});
}

}  // namespace lockstep::optim
