#pragma once
#include <functional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace lockstep::bench {

/// Several ways to do one thing on all ranks of world(), timed in turn, so that whatever else the
/// machine does hits all of them alike.
class Sides {
 public:
  /// `call` is made by every rank, the same number of times. Collective, as all of this class.
  void add(std::string name, std::function<void()> call);

  /// For about `seconds`: all ranks meet, then a side's call is repeated for some milliseconds; the
  /// slowest rank's time a call is one sample; then the next side's turn; every round begins with
  /// another. 7 rounds at least.
  void run(double seconds = 1);

  /// Microseconds a call, the median of the samples, on every rank; NaN if there is no such side.
  [[nodiscard]] double median_us(const std::string& name) const;
  /// Every side's median as counter "NAME_us", and, with `bus_bytes` a call, "NAME_GB/s". The
  /// iteration's time is the first side's.
  void report(benchmark::State& state, double bus_bytes = 0) const;

 private:
  struct Side {
    std::string name;
    std::function<void()> call;
    int batch = 1;
    std::vector<double> samples;  // seconds a call
  };
  [[nodiscard]] static double sample(const Side& side, int batch);

  std::vector<Side> sides_;
};

}  // namespace lockstep::bench
