#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/strided.hpp>

namespace lockstep {
namespace {

using detail::broadcast_strides;
using detail::Run;
using detail::StridedLoop;

template <class T>
struct Add {
  KOKKOS_FUNCTION static T apply(T a, T b) { return a + b; }
};
template <class T>
struct Subtract {
  KOKKOS_FUNCTION static T apply(T a, T b) { return a - b; }
};
template <class T>
struct Multiply {
  KOKKOS_FUNCTION static T apply(T a, T b) { return a * b; }
};
template <class T>
struct Divide {
  KOKKOS_FUNCTION static T apply(T a, T b) { return a / b; }
};
template <class T>
struct Equal {
  KOKKOS_FUNCTION static T apply(T a, T b) { return a == b ? T{1} : T{0}; }
};

template <class T>
struct Atan2 {
  KOKKOS_FUNCTION static T apply(T a, T b) { return std::atan2(a, b); }
};
template <class T>
struct Atan2Slope {
  KOKKOS_FUNCTION static T apply(T a, T b) {
    if (std::fabs(a) <= std::fabs(b)) {
      const T ratio = a / b;
      return b == T{0} ? T{0} : T{1} / (b * (T{1} + ratio * ratio));
    }
    const T ratio = b / a;
    return ratio / (a * (T{1} + ratio * ratio));
  }
};

// RepeatA, RepeatB: the operand is one element in the innermost loop, read before the loop.
template <class T, class Op, bool RepeatA, bool RepeatB, class Space>
void arithmetic_kernel(const Space& space, const StridedLoop<3>& loop, const Tensor& a,
                       const Tensor& b, bool accumulate, T scale, const Tensor& out) {
  const auto left = flat_view<Space, const T>(a);
  const auto right = flat_view<Space, const T>(b);
  const auto result = flat_view<Space, T>(out);
  for_each_run(
      "lockstep::arithmetic", space, loop, KOKKOS_LAMBDA(const Run<3>& run) {
        const std::int64_t in_a = run.offset[0], in_b = run.offset[1], in_out = run.offset[2];
        const T the_a = left(in_a), the_b = right(in_b);
#pragma omp simd
        for (std::int64_t c = 0; c < run.count; ++c) {
          const T value = scale * Op::apply(RepeatA ? the_a : left(in_a + c),
                                            RepeatB ? the_b : right(in_b + c));
          result(in_out + c) = accumulate ? result(in_out + c) + value : value;
        }
      });
}

template <class T, class Op, class Space>
void run_arithmetic(const Space& space, const Tensor& a, const Tensor& b, bool accumulate, T scale,
                    const Tensor& out) {
  const StridedLoop<3> loop(out.shape(), {broadcast_strides(a.shape(), out.shape()),
                                          broadcast_strides(b.shape(), out.shape()),
                                          broadcast_strides(out.shape(), out.shape())});
  const bool repeat_a = loop.inner_stride(0) == 0, repeat_b = loop.inner_stride(1) == 0;
  const auto kernel = repeat_a ? (repeat_b ? arithmetic_kernel<T, Op, true, true, Space>
                                           : arithmetic_kernel<T, Op, true, false, Space>)
                               : (repeat_b ? arithmetic_kernel<T, Op, false, true, Space>
                                           : arithmetic_kernel<T, Op, false, false, Space>);
  kernel(space, loop, a, b, accumulate, scale, out);
}

template <class T, class Space>
void masked_fill_kernel(const Space& space, const Tensor& x, const Tensor& mask, T value,
                        bool accumulate, const Tensor& y) {
  const StridedLoop<2> loop(x.shape(), {broadcast_strides(x.shape(), x.shape()),
                                        broadcast_strides(mask.shape(), x.shape())});
  const auto in = flat_view<Space, const T>(x);
  const auto fill = flat_view<Space, const bool>(mask);
  const auto out = flat_view<Space, T>(y);
  const std::int64_t step = loop.inner_stride(1);
  for_each_run(
      "lockstep::masked_fill", space, loop, KOKKOS_LAMBDA(const Run<2>& run) {
        const std::int64_t i = run.offset[0], m = run.offset[1];
        for (std::int64_t c = 0; c < run.count; ++c) {
          const T result = fill(m + c * step) ? value : in(i + c);
          out(i + c) = accumulate ? out(i + c) + result : result;
        }
      });
}

}  // namespace

void arithmetic(Arithmetic op, const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out,
                double scale) {
  dispatch(current_stream(out.device()), [&](const auto& space) {
    dispatch_floating(out.dtype(), "arithmetic", [&]<class T>() {
      const T factor = static_cast<T>(scale);
      switch (op) {
        case Arithmetic::add:
          return run_arithmetic<T, Add<T>>(space, a, b, accumulate, factor, out);
        case Arithmetic::subtract:
          return run_arithmetic<T, Subtract<T>>(space, a, b, accumulate, factor, out);
        case Arithmetic::multiply:
          return run_arithmetic<T, Multiply<T>>(space, a, b, accumulate, factor, out);
        case Arithmetic::divide:
          return run_arithmetic<T, Divide<T>>(space, a, b, accumulate, factor, out);
        case Arithmetic::equal:
          return run_arithmetic<T, Equal<T>>(space, a, b, accumulate, factor, out);
        case Arithmetic::atan2:
          return run_arithmetic<T, Atan2<T>>(space, a, b, accumulate, factor, out);
        case Arithmetic::atan2_slope:
          return run_arithmetic<T, Atan2Slope<T>>(space, a, b, accumulate, factor, out);
      }
    });
  });
}

void masked_fill_copy(const Tensor& x, const Tensor& mask, double value, bool accumulate,
                      const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "masked_fill", [&]<class T>() {
      masked_fill_kernel<T>(space, x, mask, static_cast<T>(value), accumulate, y);
    });
  });
}

}  // namespace lockstep
