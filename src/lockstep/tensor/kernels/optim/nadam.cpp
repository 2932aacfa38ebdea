#include <lockstep/tensor/kernels/optim/nadam.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct NAdamRule {
  explicit NAdamRule(const NAdamUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        keep(rounded<T>(u.decoupled ? 1.0 - u.lr * u.weight_decay : 1.0)),
        decay(rounded<T>(u.decoupled ? 0.0 : u.weight_decay)),
        take1(rounded<T>(1.0 - u.beta1)),
        beta2(rounded<T>(u.beta2)),
        take2(rounded<T>(1.0 - u.beta2)),
        eps(rounded<T>(u.eps)),
        correction(
            rounded<T>(1.0 / std::sqrt(1.0 - std::pow(u.beta2, static_cast<double>(u.step))))),
        of_gradient(rounded<T>(u.lr * (1.0 - u.mu) / (1.0 - u.mu_product))),
        of_mean(rounded<T>(u.lr * u.next_mu / (1.0 - u.mu_product * u.next_mu))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& square) const {
    g = gradient * g + decay * p;
    mean += take1 * (g - mean);
    square = beta2 * square + take2 * g * g;
    return keep * p - (of_gradient * g + of_mean * mean) / (std::sqrt(square) * correction + eps);
  }

  T gradient, keep, decay, take1, beta2, take2, eps, correction, of_gradient, of_mean;
};

}  // namespace

void nadam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                  const Tensor& exp_avg_sq, const NAdamUpdate& update) {
  const std::array<const Tensor*, 2> slots{&exp_avg, &exp_avg_sq};
  detail::update_parameter("nadam_update", "lockstep::nadam", parameter, gradient, slots,
                           [&]<class T>() { return NAdamRule<T>(update); });
}

}  // namespace lockstep
