#include <lockstep/tensor/kernels/linalg/matmul.hpp>

#include <algorithm>

#include <lockstep/tensor/kernels/strided.hpp>
#include <lockstep/tensor/math/product.hpp>

namespace lockstep {
namespace {

using detail::broadcast_strides;
using detail::row_major_strides;
using detail::Run;
using detail::StridedLoop;

/// An operand as a stack of matrices.
struct Stack {
  Shape batch;
  std::int64_t rows, columns;
};

Shape leading(const Shape& shape) {
  return Shape(std::span<const std::int64_t>(
      shape.begin(), static_cast<std::size_t>(std::max(0, shape.dims() - 2))));
}

Stack stack_of_a(const Shape& a) {
  return a.dims() == 1 ? Stack{{}, 1, a[0]} : Stack{leading(a), a[-2], a[-1]};
}

Stack stack_of_b(const Shape& b) {
  return b.dims() == 1 ? Stack{{}, b[0], 1} : Stack{leading(b), b[-2], b[-1]};
}

[[noreturn]] void refuse(const Tensor& a, const Tensor& b) {
  throw ShapeError("matmul of a " + describe(a) + " and b " + describe(b) +
                   ": on one device, it takes a [..., n, k] and b [..., k, m] of one dtype whose "
                   "leading extents are equal or 1, or a single [k] on either side");
}

/// The leading extents of the result; extents that are 1 or missing are broadcast.
Shape batch_shape(const Tensor& a, const Tensor& b) {
  const Shape of_a = stack_of_a(a.shape()).batch, of_b = stack_of_b(b.shape()).batch;
  const int dims = std::max(of_a.dims(), of_b.dims());
  std::array<std::int64_t, Shape::max_dims> extents{};
  for (int d = 1; d <= dims; ++d) {
    const std::int64_t in_a = d <= of_a.dims() ? of_a[-d] : 1;
    const std::int64_t in_b = d <= of_b.dims() ? of_b[-d] : 1;
    if (in_a != in_b && in_a != 1 && in_b != 1) refuse(a, b);
    extents[static_cast<std::size_t>(dims - d)] = in_a == 1 ? in_b : in_a;
  }
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(dims)));
}

/// y[n,m] = a[n,k] b[k,m] for every matrix of the batch. Operands 0, 1 and 2 of the loop are a, b
/// and y; its strides count matrices.
struct Products {
  std::int64_t n, k, m;
  StridedLoop<3> batch;
  bool repeats_a, repeats_b;

  Products(const Tensor& a, const Tensor& b)
      : Products(stack_of_a(a.shape()), stack_of_b(b.shape()), batch_shape(a, b)) {
    // One b for a whole stack of a: the rows of the stack form one tall matrix.
    if (batch.dims() == 1 && batch.stride(0, 0) == 1 && batch.stride(1, 0) == 0) {
      n *= batch.extent(0);
      batch = StridedLoop<3>({}, {});
      repeats_b = false;
    }
  }

 private:
  Products(const Stack& a, const Stack& b, const Shape& y)
      : n(a.rows),
        k(a.columns),
        m(b.columns),
        batch(y,
              {broadcast_strides(a.batch, y), broadcast_strides(b.batch, y), row_major_strides(y)}),
        repeats_a(a.batch.numel() != y.numel()),
        repeats_b(b.batch.numel() != y.numel()) {}
};

/// The matrices, rows x columns each, of operand `i` (0, 1, 2: a, b, y) in one iteration of the
/// loop.
math::Matrices matrices(const Tensor& t, int i, const StridedLoop<3>& batch, const Run<3>& run,
                        std::int64_t rows, std::int64_t columns, bool transposed = false) {
  const std::int64_t elements = rows * columns;
  return {t, std::max<std::int64_t>(columns, 1), transposed, run.offset[i] * elements,
          batch.inner_stride(i) * elements};
}

/// Calls f(run) for every iteration of the batch loop; its inner loop is one stack.
template <class F>
void for_each_stack(const StridedLoop<3>& batch, const F& f) {
  for (std::int64_t r = 0; r < batch.rounds(); ++r) f(batch.begin(r));
}

/// compute(to, accumulate) for a gradient to which several products add: those of 16 bits are
/// summed in f32.
template <class Compute>
void summed_into(const Tensor& grad, bool accumulate, bool repeats, const Compute& compute) {
  if (!repeats || !is_half(grad.dtype())) {
    if (repeats && !accumulate) grad.zero();
    return compute(grad, accumulate || repeats);
  }
  const Tensor sums =
      accumulate ? grad.to(DType::f32) : Tensor::zeros(grad.shape(), DType::f32, grad.device());
  compute(sums, true);
  grad.copy_from(sums.to(grad.dtype()));
}

}  // namespace

Shape matmul_shape(const Tensor& a, const Tensor& b) {
  if (a.dims() == 0 || b.dims() == 0 || a.dtype() != b.dtype() || a.device() != b.device() ||
      stack_of_a(a.shape()).columns != stack_of_b(b.shape()).rows) {
    refuse(a, b);
  }
  const Shape batch = batch_shape(a, b);
  std::array<std::int64_t, Shape::max_dims + 2> extents{};
  auto* end = std::ranges::copy(batch, extents.begin()).out;
  if (a.dims() > 1) *end++ = a.size(-2);
  if (b.dims() > 1) *end++ = b.size(-1);
  return Shape(std::span<const std::int64_t>(extents.begin(), end));
}

void matmul_forward(const Tensor& a, const Tensor& b, const Tensor& y) {
  const Products p(a, b);
  for_each_stack(p.batch, [&](const Run<3>& run) {
    math::product("matmul", {p.n, p.m, p.k, p.batch.inner_extent()},
                  matrices(a, 0, p.batch, run, p.n, p.k), matrices(b, 1, p.batch, run, p.k, p.m),
                  matrices(y, 2, p.batch, run, p.n, p.m));
  });
}

void matmul_backward_a(const Tensor& grad_y, const Tensor& b, bool accumulate,
                       const Tensor& grad_a) {
  const Products p(grad_a, b);
  summed_into(grad_a, accumulate, p.repeats_a, [&](const Tensor& to, bool adds) {
    for_each_stack(p.batch, [&](const Run<3>& run) {
      math::product("matmul", {p.n, p.k, p.m, p.batch.inner_extent(), adds},
                    matrices(grad_y, 2, p.batch, run, p.n, p.m),
                    matrices(b, 1, p.batch, run, p.k, p.m, true),
                    matrices(to, 0, p.batch, run, p.n, p.k));
    });
  });
}

void matmul_backward_b(const Tensor& grad_y, const Tensor& a, bool accumulate,
                       const Tensor& grad_b) {
  const Products p(a, grad_b);
  summed_into(grad_b, accumulate, p.repeats_b, [&](const Tensor& to, bool adds) {
    for_each_stack(p.batch, [&](const Run<3>& run) {
      math::product("matmul", {p.k, p.m, p.n, p.batch.inner_extent(), adds},
                    matrices(a, 0, p.batch, run, p.n, p.k, true),
                    matrices(grad_y, 2, p.batch, run, p.n, p.m),
                    matrices(to, 1, p.batch, run, p.k, p.m));
    });
  });
}

}  // namespace lockstep
