#include <lockstep/optim/schedule_kind.hpp>

#include <lockstep/optim/schedules.hpp>

namespace lockstep::optim {

ScheduleKinds& schedule_kinds() {
  // In the order of the reference. The first is the default.
  static ScheduleKinds kinds([](ScheduleKinds& own) {
    add_schedule<ConstantRate>(own, "constant", "the rate stays");
    add_schedule<StepLR>(own, "step", "StepLR");
    add_schedule<MultiStepLR>(own, "multistep", "MultiStepLR");
    add_schedule<ExponentialLR>(own, "exponential", "ExponentialLR");
    add_schedule<CosineAnnealingLR>(own, "cosine", "CosineAnnealingLR");
    add_schedule<CosineAnnealingWarmRestarts>(own, "cosine_restarts",
                                              "CosineAnnealingWarmRestarts");
    add_schedule<PolynomialLR>(own, "polynomial", "PolynomialLR");
    add_schedule<WarmupCosine>(own, "warmup_cosine", "linear warm-up, then half a cosine down");
    add_schedule<OneCycleLR>(own, "one_cycle", "OneCycleLR");
    add_schedule<CyclicLR>(own, "cyclic", "CyclicLR");
    add_schedule<PlateauOptions>(own, "plateau", "ReduceLROnPlateau");
  });
  return kinds;
}

void declare(DeckTable& table, ScheduleOptions& options) {
  declare_kind(table, options.kind, "shape of the learning rate over time");
  table.choice("unit", options.unit, {{"epoch", ScheduleUnit::epoch}, {"step", ScheduleUnit::step}},
               "unit of the schedule's lengths");
}

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options, std::int64_t epochs,
                                        std::int64_t steps_an_epoch) {
  const bool by_epoch = options.unit == ScheduleUnit::epoch;
  return options.kind.make(ScheduledRun{by_epoch ? epochs : epochs * steps_an_epoch, options.unit});
}

}  // namespace lockstep::optim
