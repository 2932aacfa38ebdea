#include <lockstep/tensor/kernels/elementwise/unary.hpp>

#include <lockstep/tensor/kernels/elementwise/unary_table.hpp>

namespace lockstep {

const char* name_of(Unary kind) noexcept { return detail::math_row(kind).name; }

bool is_known_by_result(Unary kind) noexcept { return detail::math_row(kind).known_by_result; }

void unary_forward(const UnaryFunction& f, const Tensor& x, const Tensor& y) {
  detail::math_row(f.kind).forward(f, x, y);
}

void unary_backward(const UnaryFunction& f, const Tensor& grad_y, const Tensor& saved,
                    bool accumulate, const Tensor& grad_x) {
  detail::math_row(f.kind).backward(f, grad_y, saved, accumulate, grad_x);
}

}  // namespace lockstep
