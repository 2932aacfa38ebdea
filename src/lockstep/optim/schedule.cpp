#include <lockstep/optim/schedule.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

std::string text_of(double value) { return fmt::format("{}", value); }

void refuse_schedule(const std::string& message) { throw InputError("schedule: " + message); }

void expect_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    refuse_schedule(fmt::format("{} = {} must be at least {}.", name, value, least));
}

void declare(DeckTable& table, LinearWarmup& warmup) {
  table.key("warmup", warmup.units,
            {.doc = "units of linear warm-up before the schedule", .unit = unit_key, .min = 0});
  table.key("start_factor", warmup.start_factor,
            {.doc = "first rate of the warm-up, relative to optimizer.lr", .min = 0.0, .max = 1.0});
}

Schedule::Schedule(const ScheduledRun& run, const LinearWarmup& warmup)
    : run_(run), warmup_(warmup) {
  if (warmup.units <= run.length) return;
  refuse_schedule(
      fmt::format("warmup = {0} {2}s is longer than the run of {1}, in which the rate never "
                  "becomes optimizer.lr. Lower warmup, or train longer.",
                  warmup.units, run.length, run.unit_name()));
}

double Schedule::lr(double base_lr, std::int64_t k) const {
  const auto& [units, start_factor] = warmup_;
  if (k >= units) return own_lr(base_lr, k - units);
  return base_lr * (start_factor + (1.0 - start_factor) * (number(k) / number(units)));
}

std::optional<double> Schedule::momentum(std::int64_t k) const {
  return own_momentum(std::max<std::int64_t>(k - warmup_.units, 0));
}

std::string Schedule::why_rate_never_falls() const {
  const auto first = first_fall();
  if (!first || warmup_.units + first->second < run_.length) return "";
  return fmt::format("the schedule never changes the rate: {} = {} {}s{}, but the run has {}",
                     first->first, first->second, run_.unit_name(),
                     warmup_.units > 0 ? fmt::format(" behind a warm-up of {}", warmup_.units) : "",
                     run_.length);
}

void apply_schedule(const Schedule& schedule, double base_lr, std::int64_t epochs,
                    std::int64_t steps, Optimizer& optimizer) {
  const std::int64_t k = schedule.run().unit == ScheduleUnit::epoch ? epochs : steps;
  optimizer.set_lr(base_lr, [&](double base) { return schedule.lr(base, k); });
  const auto momentum = schedule.momentum(k);
  if (!momentum) return;
  if (optimizer.momentum() == 0.0) {
    refuse_schedule(
        "the cycle moves the momentum, but the optimizer has none. Set optimizer.momentum above "
        "0, or schedule.cycle_momentum = false.");
  }
  optimizer.set_momentum(*momentum);
}

}  // namespace lockstep::optim
