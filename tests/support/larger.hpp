#pragma once
#include <cmath>

namespace lockstep::test {

/// The larger of two numbers; NaN if one of them is, so that a largest error over many elements
/// keeps it. std::max(largest, NaN) is `largest`, and a wrong result would pass.
inline double larger(double a, double b) {
  if (std::isnan(a)) return a;
  return b <= a ? a : b;
}

}  // namespace lockstep::test
