#include <lockstep/tensor/kernels/elementwise/gated.hpp>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>
#include <lockstep/tensor/kernels/strided.hpp>

namespace lockstep {
namespace {

using detail::broadcast_strides;
using detail::Run;
using detail::StridedLoop;

// y (+)= x, or w x where `at` <= 0. Forward has at = x, backward x = grad_y.
template <class T, bool repeated, class Space>
void prelu_kernel(const Space& space, const Tensor& x, const Tensor& at, const Tensor& weight,
                  bool accumulate, const Tensor& y) {
  const StridedLoop<2> loop(x.shape(), {broadcast_strides(x.shape(), x.shape()),
                                        broadcast_strides(weight.shape(), x.shape())});
  const auto in = flat_view<Space, const T>(x), sign = flat_view<Space, const T>(at);
  const auto w = flat_view<Space, const T>(weight);
  const auto out = flat_view<Space, T>(y);
  for_each_run(
      "lockstep::prelu", space, loop, KOKKOS_LAMBDA(const Run<2>& run) {
        const std::int64_t i = run.offset[0], j = run.offset[1];
        const T slope = w(j);
#pragma omp simd
        for (std::int64_t c = 0; c < run.count; ++c) {
          const T factor = repeated ? slope : w(j + c);
          const T value = sign(i + c) > T{0} ? in(i + c) : factor * in(i + c);
          out(i + c) = accumulate ? out(i + c) + value : value;
        }
      });
}

void prelu(const Tensor& x, const Tensor& at, const Tensor& weight, bool accumulate,
           const Tensor& y) {
  const StridedLoop<2> loop(x.shape(), {broadcast_strides(x.shape(), x.shape()),
                                        broadcast_strides(weight.shape(), x.shape())});
  const bool repeated = loop.inner_stride(1) == 0 || loop.inner_extent() == 1;
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "prelu", [&]<class T>() {
      if (repeated) {
        prelu_kernel<T, true>(space, x, at, weight, accumulate, y);
      } else {
        prelu_kernel<T, false>(space, x, at, weight, accumulate, y);
      }
    });
  });
}

template <class T, class Space>
void prelu_parts_kernel(const Space& space, const Tensor& grad_y, const Tensor& x,
                        const Tensor& parts) {
  const auto g = flat_view<Space, const T>(grad_y), in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(parts);
  for_each_element(
      "lockstep::prelu_weight_parts", space, x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { out(i) = in(i) > T{0} ? T{0} : in(i)*g(i); });
}

template <class T, class Space>
void glu_forward_kernel(const Space& space, const Shape& shape, const Tensor& x, const Tensor& y) {
  using Wide = SumOf<T>;
  const std::int64_t half = shape[1] / 2 * shape[2];
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  for_each_row(
      "lockstep::glu_forward", space, shape[0], half,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        lanes.each([&](std::int64_t c) {
          const auto a = static_cast<Wide>(in(2 * r * half + c));
          const auto b = static_cast<Wide>(in((2 * r + 1) * half + c));
          out(r * half + c) = static_cast<T>(a * math::sigmoid(b));
        });
      });
}

template <class T, bool accumulate, class Space>
void glu_backward_kernel(const Space& space, const Shape& shape, const Tensor& grad_y,
                         const Tensor& x, const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const std::int64_t half = shape[1] / 2 * shape[2];
  const auto g = flat_view<Space, const T>(grad_y), in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(grad_x);
  for_each_row(
      "lockstep::glu_backward", space, shape[0], half,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        lanes.each([&](std::int64_t c) {
          const std::int64_t a = 2 * r * half + c, b = a + half;
          const auto s = math::sigmoid_and_complement(static_cast<Wide>(in(b)));
          const Wide to_a = static_cast<Wide>(g(r * half + c)) * s.value;
          const Wide to_b = to_a * static_cast<Wide>(in(a)) * s.complement;
          out(a) = static_cast<T>(accumulate ? static_cast<Wide>(out(a)) + to_a : to_a);
          out(b) = static_cast<T>(accumulate ? static_cast<Wide>(out(b)) + to_b : to_b);
        });
      });
}

template <class T>
KOKKOS_FUNCTION T sum_of(T a, T b) {
  return static_cast<T>(static_cast<SumOf<T>>(a) + static_cast<SumOf<T>>(b));
}

template <class T, bool accumulate, class Space>
void where_kernel(const Space& space, const Tensor& condition, const Tensor& a, const Tensor& b,
                  const Tensor& y) {
  const auto strides = [&](const Tensor& t) {
    return t.defined() ? broadcast_strides(t.shape(), y.shape()) : detail::Strides{};
  };
  const StridedLoop<4> loop(y.shape(), {broadcast_strides(y.shape(), y.shape()), strides(condition),
                                        strides(a), strides(b)});
  const auto out = flat_view<Space, T>(y);
  const auto choose = flat_view<Space, const bool>(condition);
  const T* const from_a = a.defined() ? flat_view<Space, const T>(a).data() : nullptr;
  const T* const from_b = b.defined() ? flat_view<Space, const T>(b).data() : nullptr;
  const std::int64_t step = loop.inner_stride(1), step_a = loop.inner_stride(2),
                     step_b = loop.inner_stride(3);
  const bool plain = step == 1 && step_a == 1 && step_b == 1 && from_a && from_b;
  for_each_run(
      "lockstep::where", space, loop, KOKKOS_LAMBDA(const Run<4>& run) {
        T* const to = &out(run.offset[0]);
        const bool* const which = &choose(run.offset[1]);
        if (plain) {
          const T *const pa = from_a + run.offset[2], *const pb = from_b + run.offset[3];
#pragma omp simd
          for (std::int64_t c = 0; c < run.count; ++c) {
            const T value = which[c] ? pa[c] : pb[c];
            to[c] = accumulate ? sum_of(to[c], value) : value;
          }
          return;
        }
        for (std::int64_t c = 0; c < run.count; ++c) {
          const T value_a = from_a ? from_a[run.offset[2] + c * step_a] : T{};
          const T value_b = from_b ? from_b[run.offset[3] + c * step_b] : T{};
          const T value = which[c * step] ? value_a : value_b;
          to[c] = accumulate ? sum_of(to[c], value) : value;
        }
      });
}

}  // namespace

void prelu_forward(const Tensor& x, const Tensor& weight, const Tensor& y) {
  prelu(x, x, weight, false, y);
}

void prelu_backward(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool accumulate,
                    const Tensor& grad_x) {
  prelu(grad_y, x, weight, accumulate, grad_x);
}

void prelu_weight_parts(const Tensor& grad_y, const Tensor& x, const Tensor& parts) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "prelu",
                      [&]<class T>() { prelu_parts_kernel<T>(space, grad_y, x, parts); });
  });
}

void glu_forward(const Tensor& x, int dim, const Tensor& y) {
  const Shape shape = detail::around(x.shape(), dim);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "glu",
                    [&]<class T>() { glu_forward_kernel<T>(space, shape, x, y); });
  });
}

void glu_backward(const Tensor& grad_y, const Tensor& x, int dim, bool accumulate,
                  const Tensor& grad_x) {
  const Shape shape = detail::around(x.shape(), dim);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "glu", [&]<class T>() {
      if (accumulate) {
        glu_backward_kernel<T, true>(space, shape, grad_y, x, grad_x);
      } else {
        glu_backward_kernel<T, false>(space, shape, grad_y, x, grad_x);
      }
    });
  });
}

void where_copy(const Tensor& condition, const Tensor& a, const Tensor& b, bool accumulate,
                const Tensor& y) {
  dispatch(current_stream(y.device()), [&](const auto& space) {
    dispatch_stored(y.dtype(), "where", [&]<class T>() {
      if (accumulate) {
        where_kernel<T, true>(space, condition, a, b, y);
      } else {
        where_kernel<T, false>(space, condition, a, b, y);
      }
    });
  });
}

}  // namespace lockstep
