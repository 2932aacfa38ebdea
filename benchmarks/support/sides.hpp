#pragma once
#include <functional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace lockstep::bench {

/// Times several implementations on all ranks of world(), in turn, so that other load on the
/// machine affects all alike.
class Sides {
 public:
  /// Every rank makes `call` the same number of times. Collective, as all functions of this class.
  void add(std::string name, std::function<void()> call);

  /// Runs for about `seconds`. All ranks meet, then one side's call is repeated for some
  /// milliseconds; the slowest rank's time per call is one sample. Then comes the next side; every
  /// round begins with another. At least 7 rounds.
  void run(double seconds = 1);

  /// Microseconds per call, the median of the samples, on every rank; NaN for an unknown side.
  [[nodiscard]] double median_us(const std::string& name) const;
  /// Every side's median as counter "NAME_us", and, with `bus_bytes` per call, "NAME_GB/s". The
  /// iteration's time is the first side's.
  void report(benchmark::State& state, double bus_bytes = 0) const;

 private:
  struct Side {
    std::string name;
    std::function<void()> call;
    int batch = 1;
    std::vector<double> samples;  // seconds per call
  };
  [[nodiscard]] static double sample(const Side& side, int batch);

  std::vector<Side> sides_;
};

}  // namespace lockstep::bench
