#include "curves.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::report {
namespace {

using train::MetricsRow;

std::array<double, phases.size()> seconds_of(const train::TimeSplit& times) {
  const double rest =
      times.compute.mean - times.forward.mean - times.backward.mean - times.optimizer.mean;
  const double transfer =
      times.communication.mean - times.communication_work.mean - times.communication_late.mean;
  return {times.forward.mean,
          times.backward.mean,
          times.optimizer.mean,
          std::max(0.0, rest),
          times.data.mean,
          times.communication_work.mean,
          times.communication_late.mean,
          std::max(0.0, transfer),
          times.other.mean};
}

}  // namespace

Curve thinned(const Curve& curve, std::int64_t columns) {
  if (std::ssize(curve.x) <= 4 * columns) return curve;
  Curve kept;
  const double begin = curve.x.front(), width = curve.x.back() - begin;
  const auto column_of = [&](std::size_t i) {
    const double share = width > 0 ? (curve.x[i] - begin) / width : 0;
    return std::min(columns - 1, static_cast<std::int64_t>(share * static_cast<double>(columns)));
  };
  for (std::size_t from = 0; from < curve.size();) {
    std::size_t to = from + 1;
    while (to < curve.size() && column_of(to) == column_of(from)) ++to;
    std::vector<std::size_t> chosen{from, to - 1};
    std::optional<std::size_t> least, most, odd;
    for (std::size_t i = from; i < to; ++i) {
      if (!std::isfinite(curve.y[i])) {
        if (!odd) odd = i;
        continue;
      }
      if (!least || curve.y[i] < curve.y[*least]) least = i;
      if (!most || curve.y[i] > curve.y[*most]) most = i;
    }
    for (const auto& one : {least, most, odd}) {
      if (one) chosen.push_back(*one);
    }
    std::ranges::sort(chosen);
    const auto repeated = std::ranges::unique(chosen);
    chosen.erase(repeated.begin(), repeated.end());
    for (const std::size_t i : chosen) kept.add(curve.x[i], curve.y[i]);
    from = to;
  }
  return kept;
}

void Curves::add(const MetricsRow& row) {
  ++rows;
  last_step = std::max(last_step, row.step);
  total_steps = std::max(total_steps, row.total_steps);
  const auto step = static_cast<double>(row.step);
  if (row.kind == "eval") {
    add_evaluation(row.set + " loss", step, row.loss);
    for (const auto& [name, value] : row.metrics) add_evaluation(row.set + " " + name, step, value);
    return;
  }
  const bool is_epoch = row.kind == "epoch";
  if (!is_epoch && row.kind != "step") return;
  (is_epoch ? epoch_loss : batch_loss).add(step, row.loss);
  last = row;
  if (!row.has_times) return;
  add_times(row);
}

// An "epoch" row stands for all steps of its epoch: only those behind its last "step" row are new.
void Curves::add_times(const MetricsRow& row) {
  const bool is_epoch = row.kind == "epoch";
  Anatomy now{.last_step = row.step, .steps = row.step - done_, .seconds = seconds_of(row.times)};
  double wall = row.seconds;
  if (is_epoch) {
    for (std::size_t i = 0; i < now.seconds.size(); ++i)
      now.seconds[i] = std::max(0.0, now.seconds[i] - of_epoch_.seconds[i]);
    wall -= std::exchange(seconds_of_epoch_, 0);
    of_epoch_ = {};
  } else {
    for (std::size_t i = 0; i < now.seconds.size(); ++i) of_epoch_.seconds[i] += now.seconds[i];
    seconds_of_epoch_ += row.seconds;
  }
  if (now.steps <= 0) return;
  done_ = row.step;
  anatomy.push_back(now);
  const auto step = static_cast<double>(row.step);
  if (wall > 0) step_ms.add(step, 1e3 * wall / static_cast<double>(now.steps));
  // An epoch's mean beside the rows of its steps would be another figure.
  if (is_epoch && !batch_loss.empty()) return;
  if (row.lr >= 0) lr.add(step, row.lr);
  if (!(row.grad_norm < 0)) grad_norm.add(step, row.grad_norm);
  if (row.samples_per_s >= 0) samples_per_s.add(step, row.samples_per_s);
  if (row.tokens_per_s >= 0) tokens_per_s.add(step, row.tokens_per_s);
  if (row.of_peak >= 0) share_of_peak.add(step, 100 * row.of_peak);
  slowest_ratio.add(step, row.slowest ? row.slowest->ratio : 1);
  if (!row.slowest) return;
  Straggler& one = stragglers[{row.slowest->rank, row.slowest->phase}];
  if (one.rows++ == 0) one.first_step = row.step;
  one.last_step = row.step;
  if (row.slowest->ratio > one.largest_ratio) one.largest_ratio = row.slowest->ratio;
}

void Curves::add_evaluation(const std::string& name, double step, double value) {
  auto there = std::ranges::find(evaluations, name, &std::pair<std::string, Curve>::first);
  if (there == evaluations.end()) there = evaluations.insert(there, {name, {}});
  there->second.add(step, value);
}

const Curve* Curves::evaluation(const std::string& name) const {
  const auto there = std::ranges::find(evaluations, name, &std::pair<std::string, Curve>::first);
  return there == evaluations.end() ? nullptr : &there->second;
}

}  // namespace lockstep::report
