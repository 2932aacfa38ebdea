#include <lockstep/tensor/kernels/elementwise/activation.hpp>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/elementwise/unary_kernel.hpp>

namespace lockstep {
namespace {

// An activation is its value at x and its gradient, given grad_y and x or y.

struct Relu {
  static constexpr const char *name = "relu", *forward = "lockstep::relu_forward",
                              *backward = "lockstep::relu_backward";
  template <class T>
  KOKKOS_FUNCTION static T value(T x) {
    return x <= T{0} ? T{0} : x;
  }
  template <class T>
  KOKKOS_FUNCTION static T gradient(T g, T y) {
    return y <= T{0} ? T{0} : g;
  }
};

struct ExactGelu {
  static constexpr const char *name = "gelu", *forward = "lockstep::gelu_forward",
                              *backward = "lockstep::gelu_backward";
  template <class T>
  KOKKOS_FUNCTION static T value(T x) {
    return math::gelu(x);
  }
  template <class T>
  KOKKOS_FUNCTION static T gradient(T g, T x) {
    return g * math::gelu_derivative(x);
  }
};

/// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)); 2 u = x (a + b x^2).
struct TanhGelu {
  static constexpr const char *name = "gelu", *forward = "lockstep::gelu_tanh_forward",
                              *backward = "lockstep::gelu_tanh_backward";
  static constexpr double twice_root = 1.5957691216057308;  // 2 sqrt(2 / pi)
  template <class T>
  KOKKOS_FUNCTION static constexpr T a() {
    return static_cast<T>(twice_root);
  }
  template <class T>
  KOKKOS_FUNCTION static constexpr T b() {
    return static_cast<T>(twice_root * 0.044715);
  }

  template <class T>
  KOKKOS_FUNCTION static T value(T x) {
    const T v = x * (a<T>() + b<T>() * x * x), e = math::exp_or_zero(-std::fabs(v));
    return math::quotient(x * (v < T{0} ? e : T{1}), T{1} + e);
  }
  template <class T>
  KOKKOS_FUNCTION static T gradient(T g, T x) {
    // Beyond |x| = 30 e is 0; the bound prevents an overflow of x^3.
    const T square = x * x, z = square > T{900} ? T{900} : square;
    const T e = math::exp_or_zero(-std::fabs(x * (a<T>() + b<T>() * z)));
    const T inverse = math::quotient(T{1}, T{1} + e),
            steepness = (a<T>() + T{3} * b<T>() * z) * e * inverse;
    return g * inverse * ((x < T{0} ? e : T{1}) + x * steepness);
  }
};

struct Silu {
  static constexpr const char *name = "silu", *forward = "lockstep::silu_forward",
                              *backward = "lockstep::silu_backward";
  template <class T>
  KOKKOS_FUNCTION static T value(T x) {
    return x * math::sigmoid(x);
  }
  template <class T>
  KOKKOS_FUNCTION static T gradient(T g, T x) {
    const auto s = math::sigmoid_and_complement(x);
    return g * s.value * (T{1} + x * s.complement);
  }
};

struct Sigmoid {
  static constexpr const char *name = "sigmoid", *forward = "lockstep::sigmoid_forward",
                              *backward = "lockstep::sigmoid_backward";
  template <class T>
  KOKKOS_FUNCTION static T value(T x) {
    return math::sigmoid(x);
  }
  template <class T>
  KOKKOS_FUNCTION static T gradient(T g, T y) {
    return g * y * (T{1} - y);
  }
};

struct Tanh {
  static constexpr const char *name = "tanh", *forward = "lockstep::tanh_forward",
                              *backward = "lockstep::tanh_backward";
  template <class T>
  KOKKOS_FUNCTION static T value(T x) {
    return math::tanh(x);
  }
  template <class T>
  KOKKOS_FUNCTION static T gradient(T g, T y) {
    return g * (T{1} - y * y);
  }
};

template <class Activation>
void forward(const Tensor& x, const Tensor& y) {
  detail::unary_forward_by(
      Activation::name, []<class T>() { return Activation(); }, x, y);
}

template <class Activation>
void backward(const Tensor& grad_y, const Tensor& saved, bool accumulate, const Tensor& grad_x) {
  detail::unary_backward_by(
      Activation::name, []<class T>() { return Activation(); }, grad_y, saved, accumulate, grad_x);
}

}  // namespace

void relu_forward(const Tensor& x, const Tensor& y) { forward<Relu>(x, y); }

void relu_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x) {
  backward<Relu>(grad_y, y, accumulate, grad_x);
}

void gelu_forward(const Tensor& x, Gelu approximation, const Tensor& y) {
  approximation == Gelu::exact ? forward<ExactGelu>(x, y) : forward<TanhGelu>(x, y);
}

void gelu_backward(const Tensor& grad_y, const Tensor& x, Gelu approximation, bool accumulate,
                   const Tensor& grad_x) {
  approximation == Gelu::exact ? backward<ExactGelu>(grad_y, x, accumulate, grad_x)
                               : backward<TanhGelu>(grad_y, x, accumulate, grad_x);
}

void silu_forward(const Tensor& x, const Tensor& y) { forward<Silu>(x, y); }

void silu_backward(const Tensor& grad_y, const Tensor& x, bool accumulate, const Tensor& grad_x) {
  backward<Silu>(grad_y, x, accumulate, grad_x);
}

void sigmoid_forward(const Tensor& x, const Tensor& y) { forward<Sigmoid>(x, y); }

void sigmoid_backward(const Tensor& grad_y, const Tensor& y, bool accumulate,
                      const Tensor& grad_x) {
  backward<Sigmoid>(grad_y, y, accumulate, grad_x);
}

void tanh_forward(const Tensor& x, const Tensor& y) { forward<Tanh>(x, y); }

void tanh_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x) {
  backward<Tanh>(grad_y, y, accumulate, grad_x);
}

}  // namespace lockstep
