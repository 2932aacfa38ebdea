#include <lockstep/tensor/kernels/regression_loss.hpp>

#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/math_functions.hpp>

namespace lockstep {
namespace {

template <class T>
struct SquaredError {
  KOKKOS_FUNCTION static T loss(T x, T t) { return (x - t) * (x - t); }
  KOKKOS_FUNCTION static T slope(T x, T t) { return T{2} * (x - t); }
};

template <class T>
struct BinaryCrossEntropy {
  KOKKOS_FUNCTION static T loss(T x, T t) {
    return (x < T{0} ? T{0} : x) - x * t + std::log1p(math::exp(-std::fabs(x)));
  }
  KOKKOS_FUNCTION static T slope(T x, T t) { return math::sigmoid(x) - t; }
};

template <class Loss, class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& target,
                    const Tensor& losses) {
  const auto in = flat_view<Space, const T>(x), t = flat_view<Space, const T>(target);
  const auto out = flat_view<Space, T>(losses);
  for_each_element(
      "lockstep::regression_loss_forward", space, x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { out(i) = Loss::loss(in(i), t(i)); });
}

template <class Loss, class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_loss, T divisor, const Tensor& x,
                     const Tensor& target, bool accumulate, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_loss);
  const auto in = flat_view<Space, const T>(x), t = flat_view<Space, const T>(target);
  const auto result = flat_view<Space, T>(grad_x);
  const std::int64_t step = grad_loss.numel() == 1 ? 0 : 1;
  for_each_element(
      "lockstep::regression_loss_backward", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T value = Loss::slope(in(i), t(i)) * (g(i * step) / divisor);
        result(i) = accumulate ? result(i) + value : value;
      });
}

template <template <class> class Loss>
void forward(const char* operation, const Tensor& x, const Tensor& target, const Tensor& losses) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), operation,
                      [&]<class T>() { forward_kernel<Loss<T>, T>(space, x, target, losses); });
  });
}

template <template <class> class Loss>
void backward(const char* operation, const Tensor& grad_loss, double divisor, const Tensor& x,
              const Tensor& target, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), operation, [&]<class T>() {
      backward_kernel<Loss<T>, T>(space, grad_loss, static_cast<T>(divisor), x, target, accumulate,
                                  grad_x);
    });
  });
}

constexpr const char* bce = "binary_cross_entropy_with_logits";

}  // namespace

void check_regression(const char* operation, const Tensor& x, const Tensor& target) {
  if (x.shape() != target.shape() || x.dtype() != target.dtype()) {
    throw ShapeError(std::string(operation) + " of x " + describe(x) + " and target " +
                     describe(target) + ": they have one shape and dtype");
  }
}

void mse_loss_forward(const Tensor& x, const Tensor& target, const Tensor& losses) {
  forward<SquaredError>("mse_loss", x, target, losses);
}

void mse_loss_backward(const Tensor& grad_loss, double divisor, const Tensor& x,
                       const Tensor& target, bool accumulate, const Tensor& grad_x) {
  backward<SquaredError>("mse_loss", grad_loss, divisor, x, target, accumulate, grad_x);
}

void binary_cross_entropy_forward(const Tensor& x, const Tensor& target, const Tensor& losses) {
  forward<BinaryCrossEntropy>(bce, x, target, losses);
}

void binary_cross_entropy_backward(const Tensor& grad_loss, double divisor, const Tensor& x,
                                   const Tensor& target, bool accumulate, const Tensor& grad_x) {
  backward<BinaryCrossEntropy>(bce, grad_loss, divisor, x, target, accumulate, grad_x);
}

}  // namespace lockstep
