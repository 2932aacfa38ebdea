#include <lockstep/train/report/step_clock.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::train {
namespace {

constexpr std::array parts_of_step{
    &StepTimes::compute,
    &StepTimes::forward,
    &StepTimes::backward,
    &StepTimes::optimizer,
    &StepTimes::communication,
    &StepTimes::communication_work,
    &StepTimes::communication_late,
    &StepTimes::data,
    &StepTimes::wall,
    &StepTimes::flops,
    &StepTimes::nominal_flops,
};

struct NamedPhase {
  const char* name;
  double StepTimes::*seconds;
};

/// A rank's phases without waiting for others.
constexpr std::array own_phases{
    NamedPhase{"forward", &StepTimes::forward},
    NamedPhase{"backward", &StepTimes::backward},
    NamedPhase{"optimizer", &StepTimes::optimizer},
    NamedPhase{"data", &StepTimes::data},
};

double own_seconds(const StepTimes& times) {
  double sum = 0;
  for (const NamedPhase& phase : own_phases) sum += times.*phase.seconds;
  return sum;
}

/// The lower middle value, so that one of two ranks can be slower than the median.
template <class Value>
double median(std::span<const StepTimes> ranks, const Value& value) {
  std::vector<double> values;
  for (const StepTimes& times : ranks) values.push_back(value(times));
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

double StepTimes::other() const { return std::max(0.0, wall - compute - communication - data); }

double StepTimes::communication_transfer() const {
  return std::max(0.0, communication - communication_work - communication_late);
}

StepTimes operator-(const StepTimes& later, const StepTimes& earlier) {
  StepTimes between;
  for (const auto part : parts_of_step) between.*part = later.*part - earlier.*part;
  between.samples = later.samples - earlier.samples;
  between.steps = later.steps - earlier.steps;
  return between;
}

void StepClock::start() {
  started_ = Clock::now();
  totals_ = {};
}

void StepClock::add_step(double seconds, const StepTimes& parts) {
  for (const auto part : parts_of_step) totals_.*part += parts.*part;
  totals_.compute += seconds - parts.communication - parts.data;
  totals_.samples += parts.samples;
  ++totals_.steps;
}

StepTimes StepClock::totals() const {
  StepTimes totals = totals_;
  totals.wall = seconds_since(started_);
  return totals;
}

std::vector<StepTimes> times_of_all(ProcessGroup& group, const StepTimes& mine) {
  constexpr auto parts = static_cast<std::int64_t>(parts_of_step.size());
  std::vector<double> row;
  for (const auto part : parts_of_step) row.push_back(mine.*part);
  const Tensor table = Tensor::empty({group.size(), parts}, DType::f64);
  group.all_gather(Tensor::from(row, {parts}), table).wait();
  const auto values = table.to_vector<double>();
  std::vector<StepTimes> ranks;
  for (std::size_t at = 0; at < values.size(); at += parts_of_step.size()) {
    StepTimes times{.samples = mine.samples, .steps = mine.steps};
    for (std::size_t p = 0; p < parts_of_step.size(); ++p) times.*parts_of_step[p] = values[at + p];
    ranks.push_back(times);
  }
  return ranks;
}

Spread spread_of(std::span<const StepTimes> ranks,
                 const std::function<double(const StepTimes&)>& value) {
  const double first = value(ranks.front());
  Spread spread{first, 0, first};
  for (const StepTimes& times : ranks) {
    const double seconds = value(times);
    spread.min = std::min(spread.min, seconds);
    spread.max = std::max(spread.max, seconds);
    spread.mean += seconds / static_cast<double>(ranks.size());
  }
  return spread;
}

TimeSplit spread_over_ranks(std::span<const StepTimes> ranks) {
  const auto spread = [&](double StepTimes::*part) {
    return spread_of(ranks, [&](const StepTimes& times) { return times.*part; });
  };
  return {.compute = spread(&StepTimes::compute),
          .communication = spread(&StepTimes::communication),
          .data = spread(&StepTimes::data),
          .other = spread_of(ranks, [](const StepTimes& times) { return times.other(); }),
          .communication_work = spread(&StepTimes::communication_work),
          .communication_late = spread(&StepTimes::communication_late),
          .forward = spread(&StepTimes::forward),
          .backward = spread(&StepTimes::backward),
          .optimizer = spread(&StepTimes::optimizer)};
}

std::optional<Slowest> slowest_rank(std::span<const StepTimes> ranks) {
  if (ranks.size() < 2) return {};
  const auto at = std::ranges::max_element(ranks, {}, own_seconds);
  if (!(own_seconds(*at) >= Slowest::least_ratio * median(ranks, own_seconds))) return {};
  const auto behind = [&](const NamedPhase& phase) {
    return (*at).*phase.seconds -
           median(ranks, [&](const StepTimes& times) { return times.*phase.seconds; });
  };
  const NamedPhase& phase = *std::ranges::max_element(own_phases, {}, behind);
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, at->steps));
  const double seconds = (*at).*phase.seconds, usual = seconds - behind(phase);
  return Slowest{.rank = static_cast<int>(at - ranks.begin()),
                 .phase = phase.name,
                 .ratio = usual > Slowest::least_share * at->wall
                              ? seconds / usual
                              : std::numeric_limits<double>::quiet_NaN(),
                 .seconds = seconds / steps,
                 .median_seconds = usual / steps};
}

std::string Slowest::text() const {
  if (std::isnan(ratio)) {
    return fmt::format("rank {} is slowest: {:.3g} ms a step more than the median in {}", rank,
                       (seconds - median_seconds) * 1e3, phase);
  }
  return fmt::format(
      "rank {} is slowest: {:.1f} times the median in {} ({:.3g} against {:.3g} ms a step)", rank,
      ratio, phase, seconds * 1e3, median_seconds * 1e3);
}

}  // namespace lockstep::train
