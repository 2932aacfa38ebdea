#pragma once
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::bench {

/// Seconds of one call of f.
template <class F>
double seconds_of(const F& f) {
  const auto start = Clock::now();
  f();
  return seconds_since(start);
}

/// Seconds of the fastest call of f in about `seconds`, and at least `calls` calls.
template <class F>
double fastest(double seconds, const F& f, int calls = 1) {
  double best = std::numeric_limits<double>::infinity();
  const auto start = Clock::now();
  for (int call = 0; call < calls || seconds_since(start) < seconds; ++call)
    best = std::min(best, seconds_of(f));
  return best;
}

/// The upper middle value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// PRECISION=bf16 in the environment requests products and convolutions in bf16.
inline Precision precision_of_environment() {
  const char* const precision = std::getenv("PRECISION");
  return precision && std::string(precision) == "bf16" ? Precision::bf16 : Precision::f32;
}

}  // namespace lockstep::bench
