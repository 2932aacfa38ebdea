#include <lockstep/tensor/kernels/optim/rmsprop.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T, bool centered, bool with_momentum>
struct RmspropRule {
  explicit RmspropRule(const RmspropUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        decay(rounded<T>(u.weight_decay)),
        keep(rounded<T>(u.alpha)),
        take(rounded<T>(1.0 - u.alpha)),
        eps(rounded<T>(u.eps)),
        momentum(rounded<T>(u.momentum)),
        lr(rounded<T>(u.lr)) {}

  /// The slots are square_avg and, where there are any, grad_avg and momentum_buffer.
  template <class... Further>
  KOKKOS_FUNCTION T operator()(T p, T g, T& square, Further&... further) const {
    g = gradient * g + decay * p;
    square = keep * square + take * g * g;
    T variance = square;
    if constexpr (centered) {
      T& mean = first(further...);
      mean += take * (g - mean);
      variance -= mean * mean;
      variance = variance < T{0} ? T{0} : variance;  // only rounding makes it so
    }
    const T step = g / (std::sqrt(variance) + eps);
    if constexpr (with_momentum) {
      T& buffer = last(further...);
      buffer = momentum * buffer + step;
      return p - lr * buffer;
    }
    return p - lr * step;
  }

  template <class... Rest>
  KOKKOS_FUNCTION static T& first(T& a, Rest&...) {
    return a;
  }
  KOKKOS_FUNCTION static T& last(T& a) { return a; }
  KOKKOS_FUNCTION static T& last(T&, T& b) { return b; }

  T gradient, decay, keep, take, eps, momentum, lr;
};

template <bool centered, bool with_momentum, std::size_t n>
void run_rmsprop(const Tensor& parameter, const Tensor& gradient,
                 const std::array<const Tensor*, n>& slots, const RmspropUpdate& update) {
  detail::update_parameter(
      "rmsprop_update", "lockstep::rmsprop", parameter, gradient, slots,
      [&]<class T>() { return RmspropRule<T, centered, with_momentum>(update); });
}

}  // namespace

void rmsprop_update(const Tensor& parameter, const Tensor& gradient, const Tensor& square_avg,
                    const Tensor& grad_avg, const Tensor& momentum_buffer,
                    const RmspropUpdate& update) {
  using Slots1 = std::array<const Tensor*, 1>;
  using Slots2 = std::array<const Tensor*, 2>;
  using Slots3 = std::array<const Tensor*, 3>;
  const Tensor *s = &square_avg, *a = &grad_avg, *b = &momentum_buffer;
  if (a->defined() && b->defined()) {
    run_rmsprop<true, true>(parameter, gradient, Slots3{s, a, b}, update);
  } else if (a->defined()) {
    run_rmsprop<true, false>(parameter, gradient, Slots2{s, a}, update);
  } else if (b->defined()) {
    run_rmsprop<false, true>(parameter, gradient, Slots2{s, b}, update);
  } else {
    run_rmsprop<false, false>(parameter, gradient, Slots1{s}, update);
  }
}

}  // namespace lockstep
