#pragma once
#include <lockstep/tensor/kernels/elementwise/unary.hpp>
#include <lockstep/tensor/kernels/elementwise/unary_kernel.hpp>

// Private to the unary functions' .cpp files.

namespace lockstep::detail {

/// y = f(x) by row F<T>, made from the function's numbers.
template <template <class> class F>
void forward_by_row(const UnaryFunction& f, const Tensor& x, const Tensor& y) {
  unary_forward_by(
      name_of(f.kind), [&]<class T>() { return F<T>(f); }, x, y);
}

template <template <class> class F>
void backward_by_row(const UnaryFunction& f, const Tensor& grad_y, const Tensor& saved,
                     bool accumulate, const Tensor& grad_x) {
  unary_backward_by(
      name_of(f.kind), [&]<class T>() { return F<T>(f); }, grad_y, saved, accumulate, grad_x);
}

/// One line of the table.
struct UnaryRow {
  const char* name;
  bool known_by_result;
  void (*forward)(const UnaryFunction& f, const Tensor& x, const Tensor& y);
  void (*backward)(const UnaryFunction& f, const Tensor& grad_y, const Tensor& saved,
                   bool accumulate, const Tensor& grad_x);
};

template <template <class> class F>
constexpr UnaryRow row_of(const char* name, bool known_by_result = false) {
  return {name, known_by_result, forward_by_row<F>, backward_by_row<F>};
}

[[nodiscard]] UnaryRow math_row(Unary kind) noexcept;
[[nodiscard]] UnaryRow activation_row(Unary kind) noexcept;

}  // namespace lockstep::detail
