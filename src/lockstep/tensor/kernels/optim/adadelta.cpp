#include <lockstep/tensor/kernels/optim/adadelta.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct AdadeltaRule {
  explicit AdadeltaRule(const AdadeltaUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        decay(rounded<T>(u.weight_decay)),
        keep(rounded<T>(u.rho)),
        take(rounded<T>(1.0 - u.rho)),
        eps(rounded<T>(u.eps)),
        lr(rounded<T>(u.lr)) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& square, T& delta) const {
    g = gradient * g + decay * p;
    square = keep * square + take * g * g;
    const T step = std::sqrt(delta + eps) / std::sqrt(square + eps) * g;
    delta = keep * delta + take * step * step;
    return p - lr * step;
  }

  T gradient, decay, keep, take, eps, lr;
};

}  // namespace

void adadelta_update(const Tensor& parameter, const Tensor& gradient, const Tensor& square_avg,
                     const Tensor& acc_delta, const AdadeltaUpdate& update) {
  const std::array<const Tensor*, 2> slots{&square_avg, &acc_delta};
  detail::update_parameter("adadelta_update", "lockstep::adadelta", parameter, gradient, slots,
                           [&]<class T>() { return AdadeltaRule<T>(update); });
}

}  // namespace lockstep
