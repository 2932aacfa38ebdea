#include <lockstep/tensor/kernels/optim/adamax.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct AdamaxRule {
  explicit AdamaxRule(const AdamaxUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        decay(rounded<T>(u.weight_decay)),
        take1(rounded<T>(1.0 - u.beta1)),
        beta2(rounded<T>(u.beta2)),
        eps(rounded<T>(u.eps)),
        step_size(rounded<T>(u.lr / (1.0 - std::pow(u.beta1, static_cast<double>(u.step))))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& mean, T& norm) const {
    g = gradient * g + decay * p;
    mean += take1 * (g - mean);
    const T kept = beta2 * norm, size = std::fabs(g) + eps;
    norm = size < kept ? kept : size;  // a NaN stays
    return p - step_size * mean / norm;
  }

  T gradient, decay, take1, beta2, eps, step_size;
};

}  // namespace

void adamax_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                   const Tensor& exp_inf, const AdamaxUpdate& update) {
  const std::array<const Tensor*, 2> slots{&exp_avg, &exp_inf};
  detail::update_parameter("adamax_update", "lockstep::adamax", parameter, gradient, slots,
                           [&]<class T>() { return AdamaxRule<T>(update); });
}

}  // namespace lockstep
