#include "scaling/model/stragglers.hpp"

#include <cmath>
#include <numbers>

namespace lockstep::scaling {

double expected_maximum(int ranks) {
  if (ranks <= 1) return 0;
  // E = int_0^inf (1 - Phi(x)^n) dx - int_-inf^0 Phi(x)^n dx, by the trapezoidal rule.
  constexpr double end = 12, step = 1.0 / 256;
  constexpr int steps = static_cast<int>(end / step);
  const double n = ranks;
  const auto power = [n](double x) {
    return std::exp(n * std::log(std::erfc(-x / std::numbers::sqrt2) / 2));
  };
  double sum = (1 - 2 * power(0)) / 2;
  for (int i = 1; i <= steps; ++i) sum += 1 - power(i * step) - power(-i * step);
  return sum * step;
}

}  // namespace lockstep::scaling
