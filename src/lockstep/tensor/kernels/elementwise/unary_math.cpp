#include <cmath>
#include <numbers>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/elementwise/unary_table.hpp>

namespace lockstep {
namespace {

template <class T>
struct Abs {
  static constexpr const char *forward = "lockstep::abs", *backward = forward;
  explicit Abs(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return std::fabs(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    return x > T{0} ? g : (x < T{0} ? -g : g * (x - x));  // 0 at 0
  }
};

template <class T>
struct Exp {
  static constexpr const char *forward = "lockstep::exp", *backward = forward;
  explicit Exp(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return math::exp(x); }
  KOKKOS_FUNCTION T gradient(T g, T y) const { return g * y; }
};

template <class T>
struct Log {
  static constexpr const char *forward = "lockstep::log", *backward = forward;
  explicit Log(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return math::log(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return g / x; }
};

template <class T>
struct Sqrt {
  static constexpr const char *forward = "lockstep::sqrt", *backward = forward;
  explicit Sqrt(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return std::sqrt(x); }
  KOKKOS_FUNCTION T gradient(T g, T y) const { return g / (y + y); }
};

template <class T>
struct Rsqrt {
  static constexpr const char *forward = "lockstep::rsqrt", *backward = forward;
  explicit Rsqrt(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return T{1} / std::sqrt(x); }
  KOKKOS_FUNCTION T gradient(T g, T y) const { return T{-0.5} * g * y * y * y; }
};

template <class T>
struct Reciprocal {
  static constexpr const char *forward = "lockstep::reciprocal", *backward = forward;
  explicit Reciprocal(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return T{1} / x; }
  KOKKOS_FUNCTION T gradient(T g, T y) const { return -g * y * y; }
};

template <class T>
struct Sin {
  static constexpr const char *forward = "lockstep::sin", *backward = forward;
  explicit Sin(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return math::sin(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return g * math::cos(x); }
};

template <class T>
struct Cos {
  static constexpr const char *forward = "lockstep::cos", *backward = forward;
  explicit Cos(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return math::cos(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return -g * math::sin(x); }
};

template <class T>
struct Erf {
  static constexpr const char *forward = "lockstep::erf", *backward = forward;
  explicit Erf(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return std::erf(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    return g * (static_cast<T>(2.0 * std::numbers::inv_sqrtpi) * math::exp(-x * x));
  }
};

template <class T>
struct Erfc {
  static constexpr const char *forward = "lockstep::erfc", *backward = forward;
  explicit Erfc(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return std::erfc(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    return g * (static_cast<T>(-2.0 * std::numbers::inv_sqrtpi) * math::exp(-x * x));
  }
};

template <class T>
struct Square {
  static constexpr const char *forward = "lockstep::square", *backward = forward;
  explicit Square(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return x * x; }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return T{2} * g * x; }
};

template <class T>
struct Cube {
  static constexpr const char *forward = "lockstep::cube", *backward = forward;
  explicit Cube(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return x * x * x; }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return T{3} * g * x * x; }
};

template <class T>
struct Pow {
  static constexpr const char *forward = "lockstep::pow", *backward = forward;
  explicit Pow(const UnaryFunction& f)
      : power(f.a), slope(f.a - 1.0), factor(static_cast<T>(f.a)) {}
  KOKKOS_FUNCTION T value(T x) const { return power(x); }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    return factor == T{0} ? T{0} : g * factor * slope(x);
  }
  math::Power<T> power, slope;
  T factor;
};

template <class T>
struct Clamp {
  static constexpr const char *forward = "lockstep::clamp", *backward = forward;
  explicit Clamp(const UnaryFunction& f) : low(static_cast<T>(f.a)), high(static_cast<T>(f.b)) {}
  KOKKOS_FUNCTION T value(T x) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    return !(x <= low) && !(x >= high) && x == x ? g : T{0};
  }
  T low, high;  // NaN: none
};

/// sin and cos of the few large angles that the vector code does not handle: their results are
/// computed again.
constexpr bool is_large(float x) { return x > math::largest_angle || x < -math::largest_angle; }

template <template <class> class F, class T, class Space, class Each>
void redo_large(const Space& space, const Tensor& x, const Each& each) {
  const auto in = flat_view<Space, const T>(x);
  constexpr std::int64_t block = 4096;
  const std::int64_t n = x.numel();
  for_each(
      F<T>::forward, space, (n + block - 1) / block, KOKKOS_LAMBDA(std::int64_t b) {
        const std::int64_t begin = b * block, end = begin + block < n ? begin + block : n;
        int any = 0;
#pragma omp simd reduction(| : any)
        for (std::int64_t i = begin; i < end; ++i) any |= is_large(in(i)) ? 1 : 0;
        for (std::int64_t i = begin; any != 0 && i < end; ++i) {
          if (is_large(in(i))) each(i, in(i));
        }
      });
}

// A function of its own: nvcc does not accept KOKKOS_LAMBDA within a generic lambda.
template <bool sine, class Space>
void redo_large_forward(const Space& space, const Tensor& x, const Tensor& y) {
  const auto out = flat_view<Space, float>(y);
  redo_large<Sin, float>(
      space, x,
      KOKKOS_LAMBDA(std::int64_t i, float at) { out(i) = sine ? std::sin(at) : std::cos(at); });
}

template <bool sine, class Space>
void redo_large_backward(const Space& space, const Tensor& grad_y, const Tensor& x,
                         const Tensor& grad_x) {
  const auto g = flat_view<Space, const float>(grad_y);
  const auto result = flat_view<Space, float>(grad_x);
  redo_large<Sin, float>(
      space, x, KOKKOS_LAMBDA(std::int64_t i, float at) {
        result(i) = g(i) * (sine ? std::cos(at) : -std::sin(at));
      });
}

template <class Space>
void add_angle_gradient(const Space& space, const Tensor& part, const Tensor& grad_x) {
  const auto more = flat_view<Space, const float>(part);
  const auto result = flat_view<Space, float>(grad_x);
  for_each_element(
      Sin<float>::backward, space, part.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { result(i) += more(i); });
}

template <bool sine>
void angle_forward(const UnaryFunction& f, const Tensor& x, const Tensor& y) {
  if constexpr (sine) {
    detail::forward_by_row<Sin>(f, x, y);
  } else {
    detail::forward_by_row<Cos>(f, x, y);
  }
  if (x.dtype() != DType::f32) return;
  dispatch(current_stream(x.device()),
           [&](const auto& space) { redo_large_forward<sine>(space, x, y); });
}

template <bool sine>
void angle_backward(const UnaryFunction& f, const Tensor& grad_y, const Tensor& x, bool accumulate,
                    const Tensor& grad_x) {
  if (!accumulate || x.dtype() != DType::f32) {
    if constexpr (sine) {
      detail::backward_by_row<Sin>(f, grad_y, x, accumulate, grad_x);
    } else {
      detail::backward_by_row<Cos>(f, grad_y, x, accumulate, grad_x);
    }
    if (x.dtype() != DType::f32) return;
    dispatch(current_stream(x.device()),
             [&](const auto& space) { redo_large_backward<sine>(space, grad_y, x, grad_x); });
  } else {
    const Tensor part = Tensor::empty_like(grad_x);
    angle_backward<sine>(f, grad_y, x, false, part);
    dispatch(current_stream(x.device()),
             [&](const auto& space) { add_angle_gradient(space, part, grad_x); });
  }
}

/// Common powers have loops of their own.
void pow_forward(const UnaryFunction& f, const Tensor& x, const Tensor& y) {
  if (f.a == 2.0) return detail::forward_by_row<Square>(f, x, y);
  if (f.a == 3.0) return detail::forward_by_row<Cube>(f, x, y);
  detail::forward_by_row<Pow>(f, x, y);
}

void pow_backward(const UnaryFunction& f, const Tensor& grad_y, const Tensor& x, bool accumulate,
                  const Tensor& grad_x) {
  if (f.a == 2.0) return detail::backward_by_row<Square>(f, grad_y, x, accumulate, grad_x);
  if (f.a == 3.0) return detail::backward_by_row<Cube>(f, grad_y, x, accumulate, grad_x);
  detail::backward_by_row<Pow>(f, grad_y, x, accumulate, grad_x);
}

}  // namespace

detail::UnaryRow detail::math_row(Unary kind) noexcept {
  constexpr bool known_by_result = true;
  switch (kind) {
    case Unary::abs:
      return row_of<Abs>("abs");
    case Unary::exp:
      return row_of<Exp>("exp", known_by_result);
    case Unary::log:
      return row_of<Log>("log");
    case Unary::sqrt:
      return row_of<Sqrt>("sqrt", known_by_result);
    case Unary::rsqrt:
      return row_of<Rsqrt>("rsqrt", known_by_result);
    case Unary::reciprocal:
      return row_of<Reciprocal>("reciprocal", known_by_result);
    case Unary::sin:
      return {"sin", false, angle_forward<true>, angle_backward<true>};
    case Unary::cos:
      return {"cos", false, angle_forward<false>, angle_backward<false>};
    case Unary::erf:
      return row_of<Erf>("erf");
    case Unary::erfc:
      return row_of<Erfc>("erfc");
    case Unary::pow:
      return {"pow", false, pow_forward, pow_backward};
    case Unary::clamp:
      return row_of<Clamp>("clamp");
    default:
      return activation_row(kind);
  }
}

}  // namespace lockstep
