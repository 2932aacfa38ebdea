#include <lockstep/tensor/kernels/optim/radam.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

/// What the step is multiplied by, the mean's correction aside; 0: the variance is not yet known.
double rectification(const RAdamUpdate& u) {
  const double t = static_cast<double>(u.step), power = std::pow(u.beta2, t);
  const double most = 2.0 / (1.0 - u.beta2) - 1.0, r = most - 2.0 * t * power / (1.0 - power);
  if (!(r > 5.0)) return 0.0;
  return std::sqrt(1.0 - power) *
         std::sqrt((r - 4.0) * (r - 2.0) * most / ((most - 4.0) * (most - 2.0) * r));
}

template <class T, bool rectified>
struct RAdamRule {
  RAdamRule(const RAdamUpdate& u, double factor)
      : gradient(rounded<T>(u.gradient_factor)),
        keep(rounded<T>(u.decoupled ? 1.0 - u.lr * u.weight_decay : 1.0)),
        decay(rounded<T>(u.decoupled ? 0.0 : u.weight_decay)),
        take1(rounded<T>(1.0 - u.beta1)),
        beta2(rounded<T>(u.beta2)),
        take2(rounded<T>(1.0 - u.beta2)),
        eps(rounded<T>(u.eps)),
        step_size(
            rounded<T>(u.lr * factor / (1.0 - std::pow(u.beta1, static_cast<double>(u.step))))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& square) const {
    g = gradient * g + decay * p;
    mean += take1 * (g - mean);
    square = beta2 * square + take2 * g * g;
    const T step = step_size * mean;
    return keep * p - (rectified ? step / (std::sqrt(square) + eps) : step);
  }

  T gradient, keep, decay, take1, beta2, take2, eps, step_size;
};

}  // namespace

void radam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                  const Tensor& exp_avg_sq, const RAdamUpdate& update) {
  const std::array<const Tensor*, 2> slots{&exp_avg, &exp_avg_sq};
  constexpr const char *operation = "radam_update", *label = "lockstep::radam";
  if (const double factor = rectification(update); factor > 0.0) {
    detail::update_parameter(operation, label, parameter, gradient, slots,
                             [&]<class T>() { return RAdamRule<T, true>(update, factor); });
  } else {
    detail::update_parameter(operation, label, parameter, gradient, slots,
                             [&]<class T>() { return RAdamRule<T, false>(update, 1.0); });
  }
}

}  // namespace lockstep
