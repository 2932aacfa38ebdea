#include <lockstep/tensor/kernels/optim/asgd.hpp>

#include <cmath>

#include <lockstep/tensor/kernels/optim/update_rule.hpp>

namespace lockstep {
namespace {

using detail::rounded;

template <class T>
struct AsgdRule {
  explicit AsgdRule(const AsgdUpdate& u)
      : gradient(rounded<T>(u.gradient_factor)), decay(rounded<T>(u.weight_decay)) {
    const double before = static_cast<double>(u.step - 1);
    const double rate = u.lr / std::pow(1.0 + u.lambd * u.lr * before, u.alpha);
    const double counted = before - u.t0;
    keep = rounded<T>(1.0 - u.lambd * rate);
    eta = rounded<T>(rate);
    mu = rounded<T>(counted > 1.0 ? 1.0 / counted : 1.0);
  }

  KOKKOS_FUNCTION T operator()(T p, T g, T& average) const {
    g = gradient * g + decay * p;
    p = keep * p - eta * g;
    average = mu == T{1} ? p : average + mu * (p - average);
    return p;
  }

  T gradient, decay, keep, eta, mu;
};

}  // namespace

void asgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& ax,
                 const AsgdUpdate& update) {
  const std::array<const Tensor*, 1> slots{&ax};
  detail::update_parameter("asgd_update", "lockstep::asgd", parameter, gradient, slots,
                           [&]<class T>() { return AsgdRule<T>(update); });
}

}  // namespace lockstep
