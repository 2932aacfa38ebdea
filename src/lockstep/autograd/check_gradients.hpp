#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// Options of check_gradients().
struct GradientCheckOptions {
  std::int64_t elements = 12;  ///< checked one by one in each variable; the rest all together
  std::uint64_t seed = 1;      ///< of the choice of elements and directions
};

/// Compares one variable's gradient with differences of the loss.
struct GradientCheck {
  std::string name;
  Shape shape;
  std::int64_t comparisons = 0;
  // The comparison that came closest to its bound, or went farthest beyond it:
  std::string where;      ///< "element 17", "a random direction"
  double gradient = 0;    ///< the gradient from backward()
  double difference = 0;  ///< (f(x + h) - f(x - h)) / 2h
  double allowed = 0;     ///< how far apart the two may be

  [[nodiscard]] bool ok() const;  ///< false also for a gradient that is not a number
};

/// Compares the gradients that `loss().backward()` gives to `variables` (name and leaf) with
/// central differences: `elements` of each variable one by one, and one random direction through
/// all of its elements. `loss` must give the same value every time it is called; the variables'
/// values are put back, their gradients are not. Variables in f64 make a sharp test, f32 a blunt
/// one.
///
/// Error model: with F and B the forward and backward difference at step h, the central difference
/// (F + B) / 2 is within |F - B| of the derivative, whether f curves (|F - B| = h |f''|) or has a
/// kink inside the step (ReLU, max-pool: the derivative is one of the two). Rounding adds
/// 32 u |f| / h, u the dtype's epsilon. h = u^(1/3) max(1, |x|) keeps both small.
///
/// Throws Error if a variable is no leaf that requires a gradient, or gets none.
[[nodiscard]] std::vector<GradientCheck> check_gradients(
    const std::function<Variable()>& loss,
    const std::vector<std::pair<std::string, Variable>>& variables,
    const GradientCheckOptions& options = {});

/// The same for second derivatives: of a number that the gradients of `loss`, taken with
/// create_graph, are summed up to with random weights.
[[nodiscard]] std::vector<GradientCheck> check_second_gradients(
    const std::function<Variable()>& loss,
    const std::vector<std::pair<std::string, Variable>>& variables,
    const GradientCheckOptions& options = {});

}  // namespace lockstep
