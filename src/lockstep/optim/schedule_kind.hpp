#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/deck/kinds.hpp>
#include <lockstep/optim/schedule.hpp>

namespace lockstep::optim {

/// Options of a kind of schedule that are its formula, too: lr(base_lr, k) is the rate behind k
/// finished units. Besides that they may have
///   LinearWarmup warmup;                              // before the formula, whose k begins behind
///   std::optional<double> momentum(std::int64_t k) const;
///   void fit(const ScheduledRun& run);                // derive from the run, throw InputError
///   std::pair<const char*, std::int64_t> first_fall() const;  // Schedule::why_rate_never_falls
template <class Options>
concept ScheduleFormula = DeclaredOptions<Options> &&
    requires(const Options& options, double lr, std::int64_t k) {
  { options.lr(lr, k) } -> std::convertible_to<double>;
};

/// The schedule of one formula.
template <ScheduleFormula Options>
class ScheduleOf final : public Schedule {
 public:
  ScheduleOf(const Options& options, const ScheduledRun& run)
      : ScheduleOf(run, fitted(options, run)) {}

 private:
  struct Fitted {
    Options options;
  };
  ScheduleOf(const ScheduledRun& run, const Fitted& fitted)
      : Schedule(run, warmup_of(fitted.options)), options_(fitted.options) {}

  static Fitted fitted(Options options, const ScheduledRun& run) {
    if constexpr (requires { options.fit(run); }) options.fit(run);
    return {std::move(options)};
  }
  static LinearWarmup warmup_of(const Options& options) {
    if constexpr (requires(LinearWarmup & warmup) { warmup = options.warmup; }) {
      return options.warmup;
    } else {
      return {};
    }
  }

  [[nodiscard]] double own_lr(double base_lr, std::int64_t k) const override {
    return options_.lr(base_lr, k);
  }
  [[nodiscard]] std::optional<double> own_momentum(std::int64_t k) const override {
    if constexpr (requires { options_.momentum(k); }) {
      return options_.momentum(k);
    } else {
      return std::nullopt;
    }
  }
  [[nodiscard]] std::optional<Fall> first_fall() const override {
    if constexpr (requires { options_.first_fall(); }) {
      return options_.first_fall();
    } else {
      return std::nullopt;
    }
  }

  Options options_;
};

/// Schedules by their names in decks. Made of the run that they must fit.
using ScheduleKinds = Kinds<std::unique_ptr<Schedule>(const ScheduledRun&)>;

/// All values of `[schedule] kind`: Lockstep's own, then those of register_schedule.
[[nodiscard]] ScheduleKinds& schedule_kinds();

/// The options of one of them: a StepLR, a CosineAnnealingLR ... By default the rate is constant.
using ScheduleKind = KindOf<schedule_kinds>;

template <ScheduleFormula Options>
void add_schedule(ScheduleKinds& kinds, std::string name, std::string doc) {
  kinds.add<Options>(std::move(name), std::move(doc),
                     [](const Options& options, const ScheduledRun& run) {
                       return std::make_unique<ScheduleOf<Options>>(options, run);
                     });
}

/// Makes a user-defined schedule known to decks, as `kind = "name"`, and to make_schedule:
///   optim::register_schedule<InverseSqrt>("inverse_sqrt", "falls as 1 / sqrt(k)");
/// Once a process, before a deck is read or options are used. `doc` is its line in the reference.
/// Throws Error if the name, or the options, are another kind's.
template <ScheduleFormula Options>
void register_schedule(std::string name, std::string doc) {
  add_schedule<Options>(schedule_kinds(), std::move(name), std::move(doc));
}

/// The deck's [schedule] table.
///   optim::make_schedule({.kind = optim::StepLR{.step_size = 10}}, epochs, steps_an_epoch)
struct ScheduleOptions {
  ScheduleKind kind;  ///< lockstep/optim/schedules.hpp has Lockstep's own
  ScheduleUnit unit = ScheduleUnit::epoch;
};
void declare(DeckTable& table, ScheduleOptions& options);

/// The schedule of a run with this number of epochs and of steps per epoch. Throws InputError if
/// options contradict each other or the run, e.g. a warm-up longer than the run, milestones that do
/// not ascend, or lengths below 1.
[[nodiscard]] std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options,
                                                      std::int64_t epochs,
                                                      std::int64_t steps_an_epoch);

}  // namespace lockstep::optim
