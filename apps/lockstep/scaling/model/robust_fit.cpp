#include "scaling/model/robust_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep::scaling {
namespace {

using Numbers = std::vector<double>;
using Matrix = std::vector<Numbers>;

/// The solution of a x = b by elimination with pivots; nothing if a is singular to rounding.
std::optional<Numbers> solve(Matrix a, Numbers b) {
  constexpr double negligible = 1e-10;
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    if (std::abs(a[pivot][k]) < negligible) return std::nullopt;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

/// Relative errors.
Numbers errors_of(const std::vector<Equation>& equations, const Numbers& coefficients) {
  Numbers errors;
  for (const Equation& one : equations)
    errors.push_back(value_of(coefficients, one.terms) / one.value - 1);
  return errors;
}

double sum_of_sizes(const Numbers& errors) {
  return std::accumulate(errors.begin(), errors.end(), 0.0,
                         [](double sum, double error) { return sum + std::abs(error); });
}

/// Weighted least squares of the relative errors with the terms in `used` alone.
std::optional<Numbers> least_squares(const std::vector<Equation>& equations, const Numbers& weights,
                                     const std::vector<std::size_t>& used) {
  const std::size_t n = used.size();
  Numbers scale(n, 0.0);  // terms differ by many orders of magnitude: bytes, and counts
  for (const Equation& one : equations) {
    for (std::size_t i = 0; i < n; ++i)
      scale[i] = std::max(scale[i], std::abs(one.terms[used[i]] / one.value));
  }
  if (std::ranges::find(scale, 0.0) != scale.end()) return std::nullopt;
  Matrix a(n, Numbers(n));
  Numbers b(n);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t e = 0; e < equations.size(); ++e) {
    const auto term = [&](std::size_t i) {
      return equations[e].terms[used[i]] / equations[e].value / scale[i];
    };
    for (std::size_t i = 0; i < n; ++i) {
      b[i] += weights[e] / all * term(i);
      for (std::size_t j = 0; j < n; ++j) a[i][j] += weights[e] / all * term(i) * term(j);
    }
  }
  auto solution = solve(std::move(a), std::move(b));
  if (!solution) return std::nullopt;
  Numbers coefficients(equations.front().terms.size());
  for (std::size_t i = 0; i < n; ++i) {
    if ((*solution)[i] < 0) return std::nullopt;
    coefficients[used[i]] = (*solution)[i] / scale[i];
  }
  return coefficients;
}

}  // namespace

double value_of(const Numbers& coefficients, const Numbers& terms) {
  return std::inner_product(terms.begin(), terms.end(), coefficients.begin(), 0.0);
}

Numbers robust_fit(const std::vector<Equation>& equations) {
  constexpr int rounds = 50;
  constexpr double least_error = 1e-9;  // where a weight stops growing
  constexpr double clearly = 1e-9;      // another subset of terms must be better by this
  const std::size_t terms = equations.front().terms.size();
  Numbers best(terms);
  double best_sum = std::numeric_limits<double>::infinity();
  // Subsets in the order of their size, so that of equally good ones the smallest is taken.
  std::vector<unsigned> subsets(std::size_t{1} << terms);
  std::iota(subsets.begin(), subsets.end(), 0U);
  std::ranges::stable_sort(subsets, {}, [](unsigned set) { return __builtin_popcount(set); });
  for (const unsigned subset : subsets) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < terms; ++i) {
      if ((subset >> i & 1U) != 0) used.push_back(i);
    }
    if (used.empty() || used.size() > equations.size()) continue;
    Numbers weights(equations.size(), 1.0);
    for (int round = 0; round < rounds; ++round) {
      const auto found = least_squares(equations, weights, used);
      if (!found) break;
      const Numbers errors = errors_of(equations, *found);
      const double sum = sum_of_sizes(errors);
      if (sum < best_sum - clearly) {
        best_sum = sum;
        best = *found;
      }
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = 1 / std::max(least_error, std::abs(errors[i]));
    }
  }
  return best;
}

}  // namespace lockstep::scaling
