#include <lockstep/tensor/kernels/optim/adagrad.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct AdagradRule {
  explicit AdagradRule(const AdagradUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)),
        decay(rounded<T>(u.weight_decay)),
        eps(rounded<T>(u.eps)),
        rate(rounded<T>(u.lr / (1.0 + static_cast<double>(u.step - 1) * u.lr_decay))) {}

  KOKKOS_FUNCTION T operator()(T p, T g, T& sum) const {
    g = gradient * g + decay * p;
    sum += g * g;
    return p - rate * g / (std::sqrt(sum) + eps);
  }

  T gradient, decay, eps, rate;
};

}  // namespace

void adagrad_update(const Tensor& parameter, const Tensor& gradient, const Tensor& sum,
                    const AdagradUpdate& update) {
  const std::array<const Tensor*, 1> slots{&sum};
  detail::update_parameter("adagrad_update", "lockstep::adagrad", parameter, gradient, slots,
                           [&]<class T>() { return AdagradRule<T>(update); });
}

}  // namespace lockstep
