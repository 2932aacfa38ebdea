#include <cmath>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/elementwise/unary_table.hpp>

namespace lockstep {
namespace {

template <class T>
struct LeakyRelu {
  static constexpr const char *forward = "lockstep::leaky_relu", *backward = forward;
  explicit LeakyRelu(const UnaryFunction& f) : slope(static_cast<T>(f.a)) {}
  KOKKOS_FUNCTION T value(T x) const { return x > T{0} ? x : slope * x; }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return x > T{0} ? g : slope * g; }
  T slope;
};

template <class T>
struct Elu {
  static constexpr const char *forward = "lockstep::elu", *backward = forward;
  explicit Elu(const UnaryFunction& f)
      : scale(static_cast<T>(f.b)),
        below(static_cast<T>(f.a * f.b)),
        steepness(static_cast<T>(f.c)),
        slope(static_cast<T>(f.a * f.b * f.c)) {}
  KOKKOS_FUNCTION T value(T x) const {
    const T at = x > T{0} ? T{0} : x;
    return x > T{0} ? scale * x : below * math::expm1(steepness * at);
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    const T at = x > T{0} ? T{0} : x;
    return g * (x > T{0} ? scale : slope * math::exp(steepness * at));
  }
  T scale, below, steepness, slope;
};

template <class T>
struct Softplus {
  static constexpr const char *forward = "lockstep::softplus", *backward = forward;
  explicit Softplus(const UnaryFunction& f)
      : beta(static_cast<T>(f.a)), threshold(static_cast<T>(f.b)) {}
  KOKKOS_FUNCTION T value(T x) const {
    const T z = beta * x, larger = z < T{0} ? T{0} : z;
    const T y = (larger + math::log1p(math::exp(-std::fabs(z)))) / beta;
    return z > threshold ? x : y;
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    const T z = beta * x, s = math::sigmoid(z);
    return z > threshold ? g : g * s;
  }
  T beta, threshold;
};

template <class T>
struct Softsign {
  static constexpr const char *forward = "lockstep::softsign", *backward = forward;
  explicit Softsign(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const { return x / (T{1} + std::fabs(x)); }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    const T d = T{1} + std::fabs(x);
    return g / (d * d);
  }
};

template <class T>
struct Hardtanh {
  static constexpr const char *forward = "lockstep::hardtanh", *backward = forward;
  explicit Hardtanh(const UnaryFunction& f) : low(static_cast<T>(f.a)), high(static_cast<T>(f.b)) {}
  KOKKOS_FUNCTION T value(T x) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return x <= low || x >= high ? T{0} : g; }
  T low, high;
};

template <class T>
struct Hardsigmoid {
  static constexpr const char *forward = "lockstep::hardsigmoid", *backward = forward;
  explicit Hardsigmoid(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const {
    const T raised = x < T{-3} ? T{0} : x + T{3};
    return (raised > T{6} ? T{6} : raised) / T{6};
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const { return x <= T{-3} || x >= T{3} ? T{0} : g / T{6}; }
};

template <class T>
struct Hardswish {
  static constexpr const char *forward = "lockstep::hardswish", *backward = forward;
  explicit Hardswish(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const {
    const T raised = x < T{-3} ? T{0} : x + T{3};
    return x * (raised > T{6} ? T{6} : raised) / T{6};
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    const T inside = g * (x / T{3} + T{0.5});
    const T lower = x <= T{-3} ? T{0} : inside;
    return x >= T{3} ? g : lower;
  }
};

/// tanh(log(1 + e)) = n / (n + 2) with e = exp(x), n = e (e + 2); 1 beyond x = 20.
template <class T>
struct Mish {
  static constexpr const char *forward = "lockstep::mish", *backward = forward;
  explicit Mish(const UnaryFunction&) {}
  KOKKOS_FUNCTION static T bounded_exp(T x) { return math::exp(x > T{20} ? T{20} : x); }
  KOKKOS_FUNCTION T value(T x) const {
    const T e = bounded_exp(x), n = e * (e + T{2});
    return x * (n / (n + T{2}));
  }
  KOKKOS_FUNCTION T gradient(T g, T x) const {
    const T e = bounded_exp(x), n = e * (e + T{2}), inverse = T{1} / (n + T{2});
    const T rest = x > T{20} ? T{0} : x * (T{4} * e * (T{1} + e) * inverse * inverse);
    return g * (n * inverse + rest);
  }
};

template <class T>
struct LogSigmoid {
  static constexpr const char *forward = "lockstep::log_sigmoid", *backward = forward;
  explicit LogSigmoid(const UnaryFunction&) {}
  KOKKOS_FUNCTION T value(T x) const {
    return (x < T{0} ? x : T{0}) - math::log1p(math::exp(-std::fabs(x)));
  }
  KOKKOS_FUNCTION T gradient(T g, T y) const { return -g * math::expm1(y); }  // 1 - sigmoid(x)
};

}  // namespace

detail::UnaryRow detail::activation_row(Unary kind) noexcept {
  switch (kind) {
    case Unary::leaky_relu:
      return row_of<LeakyRelu>("leaky_relu");
    case Unary::elu:
      return row_of<Elu>("elu");
    case Unary::softplus:
      return row_of<Softplus>("softplus");
    case Unary::softsign:
      return row_of<Softsign>("softsign");
    case Unary::hardtanh:
      return row_of<Hardtanh>("hardtanh");
    case Unary::hardsigmoid:
      return row_of<Hardsigmoid>("hardsigmoid");
    case Unary::hardswish:
      return row_of<Hardswish>("hardswish");
    case Unary::mish:
      return row_of<Mish>("mish");
    default:
      return row_of<LogSigmoid>("log_sigmoid", true);
  }
}

}  // namespace lockstep
