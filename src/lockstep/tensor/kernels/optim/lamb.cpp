#include <lockstep/tensor/kernels/optim/lamb.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/expect_like.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>
#include <lockstep/tensor/kernels/reduce/ordered_sum.hpp>

namespace lockstep {
namespace {

template <class T, class Space>
void moments_kernel(const Space& space, const Tensor& gradient, const Tensor& exp_avg,
                    const Tensor& exp_avg_sq, const LambUpdate& u) {
  const auto g = flat_view<Space, const T>(gradient);
  const auto m = flat_view<Space, T>(exp_avg);
  const auto v = flat_view<Space, T>(exp_avg_sq);
  const T take1 = static_cast<T>(1.0 - u.beta1);
  const T beta2 = static_cast<T>(u.beta2), take2 = static_cast<T>(1.0 - u.beta2);
  const T factor = static_cast<T>(u.gradient_factor);
  for_each(
      "lockstep::lamb_moments", space, gradient.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T grad = factor * g(i);
        m(i) += take1 * (grad - m(i));
        v(i) = beta2 * v(i) + take2 * grad * grad;
      });
}

/// u of the formula: worked out twice, for its norm and for the step, rather than stored.
template <class T, class Space>
struct Direction {
  using View = decltype(flat_view<Space, const T>(Tensor()));

  Direction(const Tensor& parameter, const Tensor& exp_avg, const Tensor& exp_avg_sq,
            const LambUpdate& u)
      : x(flat_view<Space, const T>(parameter)),
        m(flat_view<Space, const T>(exp_avg)),
        v(flat_view<Space, const T>(exp_avg_sq)),
        eps(static_cast<T>(u.eps)),
        decay(static_cast<T>(u.weight_decay)) {
    const auto t = static_cast<double>(u.step);
    correction1 = static_cast<T>(1.0 / (1.0 - std::pow(u.beta1, t)));
    correction2 = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(u.beta2, t)));
  }

  KOKKOS_FUNCTION T operator()(std::int64_t i) const {
    return m(i) * correction1 / (std::sqrt(v(i)) * correction2 + eps) + decay * x(i);
  }

  View x, m, v;
  T correction1, correction2, eps, decay;
};

template <class T, class Space>
double trust_ratio(const Space& space, const Tensor& parameter,
                   const Direction<T, Space>& direction, const LambUpdate& u) {
  if (!u.adapt) return 1.0;
  const double x = euclidean_norm(parameter);
  const double d = std::sqrt(
      ordered_sum("lockstep::lamb_norm", space, parameter, parameter.numel(), Squares{direction}));
  return x > 0.0 && d > 0.0 ? x / d : 1.0;
}

template <class T, class Space>
void step_kernel(const Space& space, const Tensor& parameter, const Direction<T, Space>& direction,
                 double local_lr) {
  const auto x = flat_view<Space, T>(parameter);
  const T lr = static_cast<T>(local_lr);
  for_each(
      "lockstep::lamb_step", space, parameter.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { x(i) -= lr * direction(i); });
}

}  // namespace

void lamb_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const Tensor& exp_avg_sq, const LambUpdate& update) {
  expect_like("lamb_update", "gradient", parameter, gradient);
  expect_like("lamb_update", "exp_avg", parameter, exp_avg);
  expect_like("lamb_update", "exp_avg_sq", parameter, exp_avg_sq);
  dispatch(current_stream(parameter.device()), [&]<class Space>(const Space& space) {
    dispatch_floating(parameter.dtype(), "lamb_update", [&]<class T>() {
      moments_kernel<T>(space, gradient, exp_avg, exp_avg_sq, update);
      const Direction<T, Space> direction(parameter, exp_avg, exp_avg_sq, update);
      const double ratio = trust_ratio<T>(space, parameter, direction, update);
      step_kernel<T>(space, parameter, direction, update.lr * ratio);
    });
  });
}

}  // namespace lockstep
