#include <lockstep/optim/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {
namespace {

using Kind = ScheduleOptions::Kind;

double number(std::int64_t k) { return static_cast<double>(k); }

/// From a at x = 0 to b at x = 1 along half a cosine.
double half_cosine(double a, double b, double x) {
  return b + (a - b) * (1.0 + std::cos(std::numbers::pi * x)) / 2.0;
}

bool has_total(Kind kind) { return kind == Kind::warmup_cosine || kind == Kind::one_cycle; }

double warmup_cosine(const ScheduleOptions& o, double base, std::int64_t k) {
  if (k < o.warmup) return base * number(k + 1) / number(o.warmup);
  const double x = number(std::min(k, o.total) - o.warmup) / number(o.total - o.warmup);
  return half_cosine(base, base * o.min_factor, x);
}

/// A value that goes from `first` to `middle` while the rate of a cycle rises, and on to `last`
/// while it falls.
double cycle(const ScheduleOptions& o, double first, double middle, double last, std::int64_t k) {
  const double peak = o.pct_start * number(o.total) - 1.0, end = number(o.total) - 1.0;
  const double at = std::min(number(k), end);
  if (at <= peak) return half_cosine(first, middle, at / peak);
  return half_cosine(middle, last, (at - peak) / (end - peak));
}

/// How high a cycle stands: 0 at the base rate, 1 at max_lr.
double cycle_height(const ScheduleOptions& o, std::int64_t k) {
  const std::int64_t down = o.step_size_down > 0 ? o.step_size_down : o.step_size_up;
  const std::int64_t cycle = k / (o.step_size_up + down), at = k % (o.step_size_up + down);
  const double height = at <= o.step_size_up ? number(at) / number(o.step_size_up)
                                             : number(o.step_size_up + down - at) / number(down);
  switch (o.mode) {
    case ScheduleOptions::CycleMode::triangular:
      break;
    case ScheduleOptions::CycleMode::triangular2:
      return height * std::exp2(-number(cycle));
    case ScheduleOptions::CycleMode::exp_range:
      return height * std::pow(o.gamma, number(k));
  }
  return height;
}

double restarted_cosine(const ScheduleOptions& o, double base, std::int64_t k) {
  std::int64_t length = o.t_0;
  if (o.t_mult == 1) k %= length;
  for (; k >= length; length *= o.t_mult) k -= length;
  return half_cosine(base, o.eta_min, number(k) / number(length));
}

std::int64_t falls(const ScheduleOptions& o, std::int64_t k) {
  switch (o.kind) {
    case Kind::step:
      return k / o.step_size;
    case Kind::multistep:
      return std::ranges::upper_bound(o.milestones, k) - o.milestones.begin();
    default:
      return k;
  }
}

[[noreturn]] void refuse(const std::string& message) { throw InputError("schedule: " + message); }

const char* unit_of(const ScheduleOptions& o) {
  return o.unit == ScheduleOptions::Unit::epoch ? "epoch" : "step";
}

/// `run` in units of the schedule.
void expect_warmup_ends(const ScheduleOptions& o, std::int64_t run) {
  if (has_total(o.kind) || o.kind == Kind::polynomial || o.warmup <= run) return;
  refuse(fmt::format(
      "warmup = {0} {2}s is longer than the run of {1}, in which the rate never becomes "
      "optimizer.lr. Lower warmup, or train longer.",
      o.warmup, run, unit_of(o)));
}

void expect_fit(const ScheduleOptions& o) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) refuse(fmt::format("{} = {} must be at least {}.", name, value, least));
  };
  if (o.kind == Kind::step) at_least("step_size", o.step_size, 1);
  if (o.kind == Kind::cosine) at_least("t_max", o.t_max, 1);
  if (o.kind == Kind::cosine_restarts) {
    at_least("t_0", o.t_0, 1);
    at_least("t_mult", o.t_mult, 1);
  }
  if (o.kind == Kind::cyclic) {
    at_least("step_size_up", o.step_size_up, 1);
    at_least("step_size_down", o.step_size_down, 0);
  }
  if (o.kind == Kind::multistep) {
    if (o.milestones.empty()) refuse("kind = \"multistep\" needs milestones, such as [10, 20].");
    if (std::ranges::adjacent_find(o.milestones, std::greater_equal{}) != o.milestones.end()) {
      refuse(fmt::format("milestones = [{}] must ascend.", fmt::join(o.milestones, ", ")));
    }
  }
  if (o.kind == Kind::one_cycle && o.warmup > 0) {
    refuse(fmt::format(
        "one_cycle has a warm-up of its own, set by pct_start: warmup = {} must be 0.", o.warmup));
  }
  if (o.kind == Kind::cyclic && !(o.max_lr > 0.0)) {
    refuse("kind = \"cyclic\" needs max_lr, the highest rate, above 0.");
  }
  if (o.kind == Kind::polynomial && o.total < 1) {
    refuse(fmt::format(
        "warmup = {} leaves nothing of the run for the polynomial. Lower warmup, or train longer.",
        o.warmup));
  }
  if (!has_total(o.kind)) return;
  if (o.warmup >= o.total) {
    refuse(fmt::format(
        "warmup = {0} must be shorter than the total of {1} {2}s. Lower warmup, train longer, or "
        "set total.",
        o.warmup, o.total, unit_of(o)));
  }
  // Of the peak's place, pct_start * total - 1, both sides must hold something.
  const double rising = o.pct_start * number(o.total);
  if (o.kind == Kind::one_cycle && !(rising > 1.0 && rising < number(o.total))) {
    refuse(fmt::format(
        "one_cycle over {0} {1}s with pct_start = {2} has no time to rise and fall: it needs "
        "pct_start * total above 1 and pct_start below 1. Count steps with unit = \"step\", train "
        "longer, or set pct_start.",
        o.total, unit_of(o), o.pct_start));
  }
}

}  // namespace

ScheduleOptions fit_to_run(ScheduleOptions options, std::int64_t epochs,
                           std::int64_t steps_an_epoch) {
  const std::int64_t run =
      options.unit == ScheduleOptions::Unit::epoch ? epochs : epochs * steps_an_epoch;
  expect_warmup_ends(options, run);
  if (options.total == 0) {
    if (has_total(options.kind)) options.total = run;
    if (options.kind == Kind::polynomial) options.total = run - options.warmup;
  }
  expect_fit(options);
  return options;
}

std::string why_rate_never_falls(const ScheduleOptions& options, std::int64_t epochs,
                                 std::int64_t steps_an_epoch) {
  const std::int64_t run =
      options.unit == ScheduleOptions::Unit::epoch ? epochs : epochs * steps_an_epoch;
  const bool stepped = options.kind == Kind::step;
  if (!stepped && options.kind != Kind::multistep) return "";
  const std::int64_t first = stepped ? options.step_size : options.milestones.front();
  if (options.warmup + first < run) return "";
  return fmt::format(
      "the schedule never changes the rate: {} = {} {}s{}, but the run has {}",
      stepped ? "schedule.step_size" : "the first of schedule.milestones", first, unit_of(options),
      options.warmup > 0 ? fmt::format(" behind a warm-up of {}", options.warmup) : "", run);
}

double scheduled_lr(const ScheduleOptions& options, double base_lr, std::int64_t k) {
  if (options.kind == Kind::warmup_cosine) return warmup_cosine(options, base_lr, k);
  if (options.kind == Kind::one_cycle) {
    const double first = base_lr / options.div_factor;
    return cycle(options, first, base_lr, first / options.final_div_factor, k);
  }
  if (k < options.warmup) {
    const double done = number(k) / number(options.warmup);
    return base_lr * (options.start_factor + (1.0 - options.start_factor) * done);
  }
  k -= options.warmup;
  if (options.kind == Kind::constant || options.kind == Kind::plateau) return base_lr;
  if (options.kind == Kind::cyclic) {
    return base_lr + (options.max_lr - base_lr) * cycle_height(options, k);
  }
  if (options.kind == Kind::cosine) {
    return half_cosine(base_lr, options.eta_min, number(k) / number(options.t_max));
  }
  if (options.kind == Kind::cosine_restarts) return restarted_cosine(options, base_lr, k);
  if (options.kind == Kind::polynomial) {
    const double done = number(std::min(k, options.total)) / number(options.total);
    return base_lr * std::pow(1.0 - done, options.power);
  }
  return base_lr * std::pow(options.gamma, number(falls(options, k)));
}

std::optional<double> scheduled_momentum(const ScheduleOptions& options, std::int64_t k) {
  if (!options.cycle_momentum) return std::nullopt;
  if (options.kind == Kind::cyclic) {
    const double height = k < options.warmup ? 0.0 : cycle_height(options, k - options.warmup);
    return options.max_momentum - (options.max_momentum - options.base_momentum) * height;
  }
  if (options.kind != Kind::one_cycle) return std::nullopt;
  return cycle(options, options.max_momentum, options.base_momentum, options.max_momentum, k);
}

void apply_schedule(const ScheduleOptions& options, double base_lr, std::int64_t epochs,
                    std::int64_t steps, Optimizer& optimizer) {
  const std::int64_t k = options.unit == ScheduleOptions::Unit::epoch ? epochs : steps;
  optimizer.set_lr(base_lr, [&](double base) { return scheduled_lr(options, base, k); });
  const auto momentum = scheduled_momentum(options, k);
  if (!momentum) return;
  if (optimizer.momentum() == 0.0) {
    throw InputError(
        "schedule: the cycle moves the momentum, but the optimizer has none. Set "
        "optimizer.momentum above 0, or schedule.cycle_momentum = false.");
  }
  optimizer.set_momentum(*momentum);
}

}  // namespace lockstep::optim
