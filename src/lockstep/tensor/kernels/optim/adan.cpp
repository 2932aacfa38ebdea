#include <lockstep/tensor/kernels/optim/adan.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct AdanRule {
  explicit AdanRule(const AdanUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        beta1(rounded<T>(u.beta1)),
        take1(rounded<T>(1.0 - u.beta1)),
        beta2(rounded<T>(u.beta2)),
        take2(rounded<T>(1.0 - u.beta2)),
        beta3(rounded<T>(u.beta3)),
        take3(rounded<T>(1.0 - u.beta3)),
        eps(rounded<T>(u.eps)),
        before(rounded<T>(u.no_prox ? 1.0 - u.lr * u.weight_decay : 1.0)),
        after(rounded<T>(u.no_prox ? 1.0 : 1.0 / (1.0 + u.lr * u.weight_decay))),
        first(u.step == 1) {
    const auto t = static_cast<double>(u.step);
    rate = rounded<T>(u.lr / (1.0 - std::pow(u.beta1, t)));
    rate_of_change = rounded<T>(u.lr * u.beta2 / (1.0 - std::pow(u.beta2, t)));
    correction = rounded<T>(1.0 / std::sqrt(1.0 - std::pow(u.beta3, t)));
  }

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& mean_change, T& mean_square,
                               T& previous) const {
    g = gradient * g;
    const T change = first ? T{0} : g - previous;
    const T ahead = g + beta2 * change;
    mean = beta1 * mean + take1 * g;
    mean_change = beta2 * mean_change + take2 * change;
    mean_square = beta3 * mean_square + take3 * ahead * ahead;
    previous = g;
    const T step =
        (rate * mean + rate_of_change * mean_change) / (std::sqrt(mean_square) * correction + eps);
    return (before * p - step) * after;
  }

  T gradient, beta1, take1, beta2, take2, beta3, take3, eps, before, after;
  T rate, rate_of_change, correction;
  bool first;
};

}  // namespace

void adan_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const Tensor& exp_avg_diff, const Tensor& exp_avg_sq, const Tensor& previous_grad,
                 const AdanUpdate& update) {
  const std::array<const Tensor*, 4> slots{&exp_avg, &exp_avg_diff, &exp_avg_sq, &previous_grad};
  detail::update_parameter("adan_update", "lockstep::adan", parameter, gradient, slots,
                           [&]<class T>() { return AdanRule<T>(update); });
}

}  // namespace lockstep
