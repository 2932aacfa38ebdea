#include <lockstep/tensor/kernels/optim/adam.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/expect_like.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

/// What of an update is the same for every element, worked out once and in double.
template <class T>
struct Factors {
  explicit Factors(const AdamUpdate& u)
      : keep(static_cast<T>(u.decoupled ? 1.0 - u.lr * u.weight_decay : 1.0)),
        decay(static_cast<T>(u.decoupled ? 0.0 : u.weight_decay)),
        gradient(static_cast<T>(u.gradient_factor)),
        take1(static_cast<T>(1.0 - u.beta1)),
        beta2(static_cast<T>(u.beta2)),
        take2(static_cast<T>(1.0 - u.beta2)),
        eps(static_cast<T>(u.eps)) {
    const auto t = static_cast<double>(u.step);
    step_size = static_cast<T>(u.lr / (1.0 - std::pow(u.beta1, t)));
    correction = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(u.beta2, t)));
  }

  T keep, decay, gradient, take1, beta2, take2, eps, step_size, correction;
};

template <class T, class Space>
void adam_kernel(const Space& space, const Tensor& parameter, const Tensor& gradient,
                 const Tensor& exp_avg, const Tensor& exp_avg_sq, const Factors<T>& f) {
  const auto p = flat_view<Space, T>(parameter);
  const auto g = flat_view<Space, const T>(gradient);
  const auto m = flat_view<Space, T>(exp_avg);
  const auto v = flat_view<Space, T>(exp_avg_sq);
  for_each(
      "lockstep::adam", space, parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T grad = f.gradient * g(i) + f.decay * p(i);
        const T first = m(i) + f.take1 * (grad - m(i));
        const T second = f.beta2 * v(i) + f.take2 * grad * grad;
        m(i) = first;
        v(i) = second;
        p(i) = f.keep * p(i) - f.step_size * first / (std::sqrt(second) * f.correction + f.eps);
      });
}

template <class T, class Space>
void amsgrad_kernel(const Space& space, const Tensor& parameter, const Tensor& gradient,
                    const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& max_exp_avg_sq,
                    const Factors<T>& f) {
  const auto p = flat_view<Space, T>(parameter);
  const auto g = flat_view<Space, const T>(gradient);
  const auto m = flat_view<Space, T>(exp_avg);
  const auto v = flat_view<Space, T>(exp_avg_sq);
  const auto w = flat_view<Space, T>(max_exp_avg_sq);
  for_each(
      "lockstep::amsgrad", space, parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T grad = f.gradient * g(i) + f.decay * p(i);
        const T first = m(i) + f.take1 * (grad - m(i));
        const T second = f.beta2 * v(i) + f.take2 * grad * grad;
        const T largest = second < w(i) ? w(i) : second;  // a NaN stays
        m(i) = first;
        v(i) = second;
        w(i) = largest;
        p(i) = f.keep * p(i) - f.step_size * first / (std::sqrt(largest) * f.correction + f.eps);
      });
}

}  // namespace

void adam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const Tensor& exp_avg_sq, const Tensor& max_exp_avg_sq, const AdamUpdate& update) {
  expect_like("adam_update", "gradient", parameter, gradient);
  expect_like("adam_update", "exp_avg", parameter, exp_avg);
  expect_like("adam_update", "exp_avg_sq", parameter, exp_avg_sq);
  const bool amsgrad = max_exp_avg_sq.defined();
  if (amsgrad) expect_like("adam_update", "max_exp_avg_sq", parameter, max_exp_avg_sq);
  dispatch(current_stream(parameter.device()), [&](const auto& space) {
    dispatch_floating(parameter.dtype(), "adam_update", [&]<class T>() {
      const Factors<T> factors(update);
      if (amsgrad) {
        amsgrad_kernel<T>(space, parameter, gradient, exp_avg, exp_avg_sq, max_exp_avg_sq, factors);
      } else {
        adam_kernel<T>(space, parameter, gradient, exp_avg, exp_avg_sq, factors);
      }
    });
  });
}

}  // namespace lockstep
