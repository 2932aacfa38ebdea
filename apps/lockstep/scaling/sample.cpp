#include "sample.hpp"

#include <array>
#include <sstream>
#include <utility>

#include "json.hpp"

namespace lockstep::scaling {
namespace {

constexpr std::array sums{
    &Interval::samples, &Interval::seconds,  &Interval::compute, &Interval::communication,
    &Interval::data,    &Interval::other,    &Interval::work,    &Interval::late,
    &Interval::forward, &Interval::backward,
};

/// A row's figures; `steps` is not known from the row alone.
Interval figures_of(const Json& row) {
  const Json& times = row.at("time_min_mean_max_s");
  const auto mean = [&](const char* phase) { return times.at(phase).at(1).get<double>(); };
  const double seconds = row.at("seconds").get<double>();
  return {.samples = row.at("samples_per_s").get<double>() * seconds,
          .seconds = seconds,
          .compute = mean("compute"),
          .communication = mean("communication"),
          .data = mean("data"),
          .other = mean("other"),
          .work = mean("communication_work"),
          .late = mean("communication_late"),
          .forward = mean("forward"),
          .backward = mean("backward")};
}

void add(Interval& to, const Interval& more, double sign) {
  for (const auto sum : sums) to.*sum += sign * more.*sum;
}

}  // namespace

std::vector<Interval> intervals_of(const std::string& metrics) {
  std::vector<Interval> intervals;
  Interval of_epoch;  // what its "step" rows have told
  std::int64_t done = 0;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) continue;
    const std::string kind = row.value("kind", "");
    if (kind != "step" && kind != "epoch") continue;
    const auto step = row.at("step").get<std::int64_t>();
    Interval interval = figures_of(row);
    if (kind == "step") add(of_epoch, interval, 1);
    if (kind == "epoch") add(interval, std::exchange(of_epoch, {}), -1);
    interval.first_step = done + 1;
    interval.steps = step - done;
    done = step;
    if (interval.steps > 0) intervals.push_back(interval);
  }
  return intervals;
}

std::vector<Interval> measured(const std::vector<Interval>& intervals, std::int64_t warmup,
                               std::int64_t steps) {
  std::vector<Interval> kept;
  std::int64_t had = 0;
  for (const Interval& interval : intervals) {
    if (interval.first_step <= warmup || had >= steps) continue;
    kept.push_back(interval);
    had += interval.steps;
  }
  return kept;
}

Interval total(const std::vector<Interval>& intervals) {
  Interval all;
  if (!intervals.empty()) all.first_step = intervals.front().first_step;
  for (const Interval& interval : intervals) {
    all.steps += interval.steps;
    add(all, interval, 1);
  }
  return all;
}

}  // namespace lockstep::scaling
