#pragma once
#include <vector>

namespace lockstep::scaling {

/// One measurement: `value` = the sum over k of coefficient k x terms[k].
struct Equation {
  std::vector<double> terms;
  double value = 0;  ///< above 0
};

/// Coefficients, none below 0, of at most 4 terms, by the least sum of absolute relative errors:
/// iteratively reweighted least squares (Schlossmacher 1973), so that a few disturbed measurements
/// do not move it. A term that the others determine gets 0. `equations` is not empty; all have the
/// same number of terms.
[[nodiscard]] std::vector<double> robust_fit(const std::vector<Equation>& equations);

/// The right-hand side by these coefficients.
[[nodiscard]] double value_of(const std::vector<double>& coefficients,
                              const std::vector<double>& terms);

}  // namespace lockstep::scaling
