#include <algorithm>
#include <limits>

#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <support/timing.hpp>

namespace lockstep::bench {
namespace {

constexpr double sample_seconds = 0.002;  // hides the clock and the skew after the barrier
constexpr int most_calls = 1000;
constexpr int fewest_rounds = 7, most_rounds = 401;

}  // namespace

void Sides::add(std::string name, std::function<void()> call) {
  sides_.push_back({std::move(name), std::move(call), 1, {}});
}

double Sides::sample(const Side& side, int batch) {
  world().barrier();  // a late rank is not the call's fault
  const auto start = Clock::now();
  for (int i = 0; i < batch; ++i) side.call();
  const double mine = seconds_since(start) / batch;
  return all_reduce_scalar(world(), mine, ReduceOp::max);
}

void Sides::run(double seconds) {
  for (Side& side : sides_) {
    static_cast<void>(sample(side, 1));  // first touch
    const double call = std::min(sample(side, 1), sample(side, 1));
    side.batch = static_cast<int>(std::clamp(sample_seconds / call, 1.0, double{most_calls}));
  }
  const auto start = Clock::now();
  for (int round = 0; round < most_rounds; ++round) {
    for (std::size_t i = 0; i < sides_.size(); ++i) {  // each is the first of a round in turn
      Side& side = sides_[(i + static_cast<std::size_t>(round)) % sides_.size()];
      side.samples.push_back(sample(side, side.batch));
    }
    const double spent = all_reduce_scalar(world(), seconds_since(start), ReduceOp::max);
    if (round + 1 >= fewest_rounds && spent > seconds) return;
  }
}

double Sides::median_us(const std::string& name) const {
  for (const Side& side : sides_) {
    if (side.name == name) return 1e6 * median(side.samples);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void Sides::report(benchmark::State& state, double bus_bytes) const {
  for (const Side& side : sides_) {
    const double us = median_us(side.name);
    state.counters[side.name + "_us"] = us;
    if (bus_bytes > 0) state.counters[side.name + "_GB/s"] = bus_bytes / us * 1e-3;
  }
  state.SetIterationTime(1e-6 * median_us(sides_.front().name));
}

}  // namespace lockstep::bench
