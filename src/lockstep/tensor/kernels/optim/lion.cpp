#include <lockstep/tensor/kernels/optim/lion.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct LionRule {
  explicit LionRule(const LionUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        keep(rounded<T>(1.0 - u.lr * u.weight_decay)),
        lr(rounded<T>(u.lr)),
        beta1(rounded<T>(u.beta1)),
        take1(rounded<T>(1.0 - u.beta1)),
        beta2(rounded<T>(u.beta2)),
        take2(rounded<T>(1.0 - u.beta2)) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean) const {
    g = gradient * g;
    const T c = beta1 * mean + take1 * g;
    mean = beta2 * mean + take2 * g;
    // c - c: 0, or NaN if c is none of the three.
    const T direction = c > T{0} ? T{1} : (c < T{0} ? T{-1} : c - c);
    return keep * p - lr * direction;
  }

  T gradient, keep, lr, beta1, take1, beta2, take2;
};

}  // namespace

void lion_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const LionUpdate& update) {
  const std::array<const Tensor*, 1> slots{&exp_avg};
  detail::update_parameter("lion_update", "lockstep::lion", parameter, gradient, slots,
                           [&]<class T>() { return LionRule<T>(update); });
}

}  // namespace lockstep
