#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/strided.hpp>

namespace lockstep {
namespace {

using detail::broadcast_strides;
using detail::Run;
using detail::StridedLoop;
using detail::View;

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

// Operands of the innermost loop. `first` is read before it, `get` within it; S is the stored type.
// A call gives element i of one that is as long as the result, or has one element.

/// Elements side by side.
template <class S, class Space>
struct Neighbours {
  View<Space, const S, 1> elements;

  explicit Neighbours(const Tensor& t) : elements(flat_view<Space, const S>(t)) {}
  [[nodiscard]] KOKKOS_FUNCTION SumOf<S> first(std::int64_t) const { return 0; }
  [[nodiscard]] KOKKOS_FUNCTION SumOf<S> get(SumOf<S>, std::int64_t i) const {
    return static_cast<SumOf<S>>(elements(i));
  }
  KOKKOS_FUNCTION SumOf<S> operator()(std::int64_t i) const { return get(0, i); }
};

/// One element.
template <class S, class Space>
struct Repeated {
  View<Space, const S, 1> elements;

  explicit Repeated(const Tensor& t) : elements(flat_view<Space, const S>(t)) {}
  [[nodiscard]] KOKKOS_FUNCTION SumOf<S> first(std::int64_t i) const {
    return static_cast<SumOf<S>>(elements(i));
  }
  [[nodiscard]] KOKKOS_FUNCTION SumOf<S> get(SumOf<S> element, std::int64_t) const {
    return element;
  }
  KOKKOS_FUNCTION SumOf<S> operator()(std::int64_t) const { return first(0); }
};

/// Products of neighbours.
template <class S, class Space>
struct Products {
  Neighbours<S, Space> a, b;

  [[nodiscard]] KOKKOS_FUNCTION SumOf<S> first(std::int64_t) const { return 0; }
  [[nodiscard]] KOKKOS_FUNCTION SumOf<S> get(SumOf<S>, std::int64_t i) const {
    return a.get(0, i) * b.get(0, i);
  }
  KOKKOS_FUNCTION SumOf<S> operator()(std::int64_t i) const { return get(0, i); }
};

template <class T, class Op, class A, class B, class Space>
void arithmetic_kernel(const Space& space, const StridedLoop<3>& loop, const A& a, const B& b,
                       bool accumulate, SumOf<T> scale, const Tensor& out) {
  using Wide = SumOf<T>;
  const auto result = flat_view<Space, T>(out);
  if (!is_host_space<Space> && loop.dims() == 1) {  // nothing is broadcast but single elements
    return set_or_add_elements(
        "lockstep::arithmetic_alike", space, out.numel(), accumulate, result,
        KOKKOS_LAMBDA(Wide x, Wide y) { return scale * Op::apply(x, y); }, a, b);
  }
  for_each_run(
      "lockstep::arithmetic", space, loop, KOKKOS_LAMBDA(const Run<3>& run) {
        const std::int64_t in_a = run.offset[0], in_b = run.offset[1], in_out = run.offset[2];
        const Wide first_a = a.first(in_a), first_b = b.first(in_b);
#pragma omp simd
        for (std::int64_t c = 0; c < run.count; ++c) {
          const Wide value = scale * Op::apply(a.get(first_a, in_a + c), b.get(first_b, in_b + c));
          result(in_out + c) =
              static_cast<T>(accumulate ? static_cast<Wide>(result(in_out + c)) + value : value);
        }
      });
}

StridedLoop<3> loop_over(const Shape& a, const Shape& b, const Shape& out) {
  return StridedLoop<3>(
      out, {broadcast_strides(a, out), broadcast_strides(b, out), broadcast_strides(out, out)});
}

template <class T, class Op, class Space>
void run_arithmetic(const Space& space, const Tensor& a, const Tensor& b, bool accumulate,
                    double scale, const Tensor& out) {
  using Each = Neighbours<T, Space>;
  using One = Repeated<T, Space>;
  const StridedLoop<3> loop = loop_over(a.shape(), b.shape(), out.shape());
  const auto factor = static_cast<SumOf<T>>(scale);
  const auto run = [&](const auto& left, const auto& right) {
    arithmetic_kernel<T, Op>(space, loop, left, right, accumulate, factor, out);
  };
  const bool repeat_a = loop.inner_stride(0) == 0, repeat_b = loop.inner_stride(1) == 0;
  if (repeat_a) return repeat_b ? run(One(a), One(b)) : run(One(a), Each(b));
  return repeat_b ? run(Each(a), One(b)) : run(Each(a), Each(b));
}

/// f32 + S -> f32.
template <class S, class Space>
void add_narrow(const Space& space, const Tensor& wide, const Tensor& narrow, bool accumulate,
                double scale, const Tensor& out) {
  arithmetic_kernel<float, Add<float>>(space, loop_over(out.shape(), out.shape(), out.shape()),
                                       Neighbours<float, Space>(wide), Neighbours<S, Space>(narrow),
                                       accumulate, static_cast<float>(scale), out);
}

void add_of_two_types(const Tensor& wide, const Tensor& narrow, bool accumulate, double scale,
                      const Tensor& out) {
  if (wide.dtype() != DType::f32 || wide.shape() != out.shape() || narrow.shape() != out.shape()) {
    throw ShapeError("a sum of " + describe(wide) + " and " + describe(narrow) +
                     " as f32 takes an f32 operand and one of 16 bits, both of the result's shape");
  }
  dispatch(current_stream(out.device()), [&](const auto& space) {
    if (narrow.dtype() == DType::bf16) {
      add_narrow<BFloat16>(space, wide, narrow, accumulate, scale, out);
    } else {
      add_narrow<Float16>(space, wide, narrow, accumulate, scale, out);
    }
  });
}

template <class T, class Op, class Space>
void number_kernel(const Space& space, const Tensor& a, SumOf<T> number, bool accumulate,
                   const Tensor& y) {
  using Wide = SumOf<T>;
  const auto in = flat_view<Space, const T>(a);
  const auto out = flat_view<Space, T>(y);
  set_or_add_elements(
      "lockstep::arithmetic_number", space, a.numel(), accumulate, out,
      KOKKOS_LAMBDA(T x) { return Op::apply(static_cast<Wide>(x), number); }, in);
}

/// b / a.
template <class T>
struct DivideInto {
  KOKKOS_FUNCTION static T apply(T a, T b) { return b / a; }
};

template <template <class> class Op>
void with_number(const Tensor& a, double number, bool accumulate, const Tensor& out) {
  dispatch(current_stream(out.device()), [&](const auto& space) {
    dispatch_stored(out.dtype(), "arithmetic", [&]<class T>() {
      using Wide = SumOf<T>;
      number_kernel<T, Op<Wide>>(space, a, static_cast<Wide>(number), accumulate, out);
    });
  });
}

/// Operations of tensors whose kernels store f32 and f64 only.
template <class Space>
void run_rare(const Space& space, Arithmetic op, const Tensor& a, const Tensor& b, bool accumulate,
              double scale, const Tensor& out) {
  dispatch_floating(out.dtype(), "arithmetic", [&]<class T>() {
    switch (op) {
      case Arithmetic::equal:
        return run_arithmetic<T, Equal<T>>(space, a, b, accumulate, scale, out);
      case Arithmetic::atan2:
        return run_arithmetic<T, Atan2<T>>(space, a, b, accumulate, scale, out);
      default:
        return run_arithmetic<T, Atan2Slope<T>>(space, a, b, accumulate, scale, out);
    }
  });
}

template <class T, class Space>
void masked_fill_kernel(const Space& space, const Tensor& x, const Tensor& mask, SumOf<T> value,
                        bool accumulate, const Tensor& y) {
  using Wide = SumOf<T>;
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
          const Wide result = fill(m + c * step) ? value : static_cast<Wide>(in(i + c));
          out(i + c) = static_cast<T>(accumulate ? static_cast<Wide>(out(i + c)) + result : result);
        }
      });
}

}  // namespace

void arithmetic(Arithmetic op, const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out,
                double scale) {
  if (op == Arithmetic::add && out.dtype() == DType::f32) {
    if (is_half(b.dtype())) return add_of_two_types(a, b, accumulate, scale, out);
    if (is_half(a.dtype())) return add_of_two_types(b, a, accumulate, scale, out);
  }
  dispatch(current_stream(out.device()), [&](const auto& space) {
    if (op > Arithmetic::divide) return run_rare(space, op, a, b, accumulate, scale, out);
    dispatch_stored(out.dtype(), "arithmetic", [&]<class T>() {
      using Wide = SumOf<T>;
      switch (op) {
        case Arithmetic::add:
          return run_arithmetic<T, Add<Wide>>(space, a, b, accumulate, scale, out);
        case Arithmetic::subtract:
          return run_arithmetic<T, Subtract<Wide>>(space, a, b, accumulate, scale, out);
        case Arithmetic::multiply:
          return run_arithmetic<T, Multiply<Wide>>(space, a, b, accumulate, scale, out);
        default:
          return run_arithmetic<T, Divide<Wide>>(space, a, b, accumulate, scale, out);
      }
    });
  });
}

void arithmetic(Arithmetic op, const Tensor& a, double number, bool accumulate, const Tensor& out) {
  switch (op) {
    case Arithmetic::add:
      return with_number<Add>(a, number, accumulate, out);
    case Arithmetic::multiply:
      return with_number<Multiply>(a, number, accumulate, out);
    case Arithmetic::divide:
      return with_number<Divide>(a, number, accumulate, out);
    default:
      throw Error("arithmetic with a number adds, multiplies or divides");
  }
}

void number_over(double number, const Tensor& x, const Tensor& out) {
  with_number<DivideInto>(x, number, false, out);
}

void multiply_divide(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate,
                     const Tensor& out, double scale) {
  const StridedLoop<3> loop = loop_over(out.shape(), c.shape(), out.shape());
  dispatch(current_stream(out.device()), [&](const auto& space) {
    dispatch_stored(out.dtype(), "arithmetic", [&]<class T>() {
      using Space = std::decay_t<decltype(space)>;
      const Products<T, Space> products{Neighbours<T, Space>(a), Neighbours<T, Space>(b)};
      const auto run = [&](const auto& divisor) {
        arithmetic_kernel<T, Divide<SumOf<T>>>(space, loop, products, divisor, accumulate,
                                               static_cast<SumOf<T>>(scale), out);
      };
      if (loop.inner_stride(1) == 0) return run(Repeated<T, Space>(c));
      run(Neighbours<T, Space>(c));
    });
  });
}

void masked_fill_copy(const Tensor& x, const Tensor& mask, double value, bool accumulate,
                      const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "masked_fill", [&]<class T>() {
      masked_fill_kernel<T>(space, x, mask, static_cast<SumOf<T>>(value), accumulate, y);
    });
  });
}

}  // namespace lockstep
