#include <lockstep/tensor/kernels/optim/lars.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/expect_like.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>

namespace lockstep {
namespace {

double trust_ratio(const Tensor& parameter, const Tensor& gradient, const LarsUpdate& u) {
  if (!u.adapt) return 1.0;
  const double w = euclidean_norm(parameter), g = u.gradient_factor * euclidean_norm(gradient);
  return w > 0.0 && g > 0.0 ? u.trust_coefficient * w / (g + u.weight_decay * w) : 1.0;
}

template <class T, class Space>
void lars_kernel(const Space& space, const Tensor& parameter, const Tensor& gradient,
                 const Tensor& momentum_buffer, const LarsUpdate& u, double local_lr) {
  const auto w = flat_view<Space, T>(parameter);
  const auto g = flat_view<Space, const T>(gradient);
  const auto v = flat_view<Space, T>(momentum_buffer);
  const T momentum = static_cast<T>(u.momentum), decay = static_cast<T>(u.weight_decay);
  const T lr = static_cast<T>(local_lr), factor = static_cast<T>(u.gradient_factor);
  for_each(
      "lockstep::lars", space, parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T velocity = momentum * v(i) + lr * (factor * g(i) + decay * w(i));
        v(i) = velocity;
        w(i) -= velocity;
      });
}

}  // namespace

void lars_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
                 const LarsUpdate& update) {
  expect_like("lars_update", "gradient", parameter, gradient);
  expect_like("lars_update", "momentum_buffer", parameter, momentum_buffer);
  const double local_lr = update.lr * trust_ratio(parameter, gradient, update);
  dispatch(current_stream(parameter.device()), [&](const auto& space) {
    dispatch_floating(parameter.dtype(), "lars_update", [&]<class T>() {
      lars_kernel<T>(space, parameter, gradient, momentum_buffer, update, local_lr);
    });
  });
}

}  // namespace lockstep
