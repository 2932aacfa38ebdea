#include <lockstep/tensor/kernels/optim/sgd.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/expect_like.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T, class Space>
void plain_kernel(const Space& space, const Tensor& parameter, const Tensor& gradient,
                  const SgdUpdate& u) {
  const auto p = flat_view<Space, T>(parameter);
  const auto g = flat_view<Space, const T>(gradient);
  const T lr = static_cast<T>(u.lr), decay = static_cast<T>(u.weight_decay);
  const T factor = static_cast<T>(u.gradient_factor);
  for_each(
      "lockstep::sgd", space, parameter.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { p(i) -= lr * (factor * g(i) + decay * p(i)); });
}

template <class T, class Space>
void momentum_kernel(const Space& space, const Tensor& parameter, const Tensor& gradient,
                     const Tensor& momentum_buffer, const SgdUpdate& u) {
  const auto p = flat_view<Space, T>(parameter);
  const auto g = flat_view<Space, const T>(gradient);
  const auto b = flat_view<Space, T>(momentum_buffer);
  const T lr = static_cast<T>(u.lr), decay = static_cast<T>(u.weight_decay);
  const T factor = static_cast<T>(u.gradient_factor);
  const T momentum = static_cast<T>(u.momentum), take = T{1} - static_cast<T>(u.dampening);
  const bool first = u.first, nesterov = u.nesterov;
  for_each(
      "lockstep::sgd_momentum", space, parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T grad = factor * g(i) + decay * p(i);
        const T buffer = first ? grad : momentum * b(i) + take * grad;
        b(i) = buffer;
        p(i) -= lr * (nesterov ? grad + momentum * buffer : buffer);
      });
}

}  // namespace

void sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
                const SgdUpdate& update) {
  const bool with_momentum = update.momentum != 0.0;
  expect_like("sgd_update", "gradient", parameter, gradient);
  if (with_momentum) expect_like("sgd_update", "momentum buffer", parameter, momentum_buffer);
  dispatch(current_stream(parameter.device()), [&](const auto& space) {
    dispatch_floating(parameter.dtype(), "sgd_update", [&]<class T>() {
      if (with_momentum) {
        momentum_kernel<T>(space, parameter, gradient, momentum_buffer, update);
      } else {
        plain_kernel<T>(space, parameter, gradient, update);
      }
    });
  });
}

}  // namespace lockstep
