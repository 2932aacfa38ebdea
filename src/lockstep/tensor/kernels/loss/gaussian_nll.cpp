#include <lockstep/tensor/kernels/loss/gaussian_nll.hpp>

#include <cmath>
#include <numbers>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T, class Space>
void forward_of_gaussian(const Space& space, const Tensor& x, const Tensor& target,
                         const Tensor& var, T constant, T eps, const Tensor& losses) {
  const auto in = flat_view<Space, const T>(x), t = flat_view<Space, const T>(target),
             v = flat_view<Space, const T>(var);
  const auto out = flat_view<Space, T>(losses);
  for_each_element(
      "lockstep::gaussian_nll_forward", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T variance = v(i) < eps ? eps : v(i), d = in(i)-t(i);
        out(i) = T{0.5} * (math::log(variance) + d * d / variance) + constant;
      });
}

template <class T, bool by_var, class Space>
void backward_of_gaussian(const Space& space, const Tensor& grad_loss, T divisor, const Tensor& x,
                          const Tensor& target, const Tensor& var, T eps, bool accumulate,
                          const Tensor& grad) {
  const auto g = flat_view<Space, const T>(grad_loss), in = flat_view<Space, const T>(x),
             t = flat_view<Space, const T>(target), v = flat_view<Space, const T>(var);
  const auto result = flat_view<Space, T>(grad);
  const std::int64_t step = grad_loss.numel() == 1 ? 0 : 1;
  for_each_element(
      "lockstep::gaussian_nll_backward", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T variance = v(i) < eps ? eps : v(i), d = in(i)-t(i), ratio = d / variance;
        const T slope = by_var ? T{0.5} * (T{1} - d * ratio) / variance : ratio;
        const T value = slope * (g(i * step) / divisor);
        result(i) = accumulate ? result(i) + value : value;
      });
}

template <bool by_var>
void backward_gaussian(const Tensor& grad_loss, double divisor, const Tensor& x,
                       const Tensor& target, const Tensor& var, double eps, bool accumulate,
                       const Tensor& grad) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "gaussian_nll_loss", [&]<class T>() {
      backward_of_gaussian<T, by_var>(space, grad_loss, static_cast<T>(divisor), x, target, var,
                                      static_cast<T>(eps), accumulate, grad);
    });
  });
}

}  // namespace

void gaussian_nll_forward(const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                          double eps, const Tensor& losses) {
  const double constant = full ? 0.5 * std::log(2.0 * std::numbers::pi) : 0.0;
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "gaussian_nll_loss", [&]<class T>() {
      forward_of_gaussian<T>(space, x, target, var, static_cast<T>(constant), static_cast<T>(eps),
                             losses);
    });
  });
}

void gaussian_nll_backward_x(const Tensor& grad_loss, double divisor, const Tensor& x,
                             const Tensor& target, const Tensor& var, double eps, bool accumulate,
                             const Tensor& grad) {
  backward_gaussian<false>(grad_loss, divisor, x, target, var, eps, accumulate, grad);
}

void gaussian_nll_backward_var(const Tensor& grad_loss, double divisor, const Tensor& x,
                               const Tensor& target, const Tensor& var, double eps, bool accumulate,
                               const Tensor& grad) {
  backward_gaussian<true>(grad_loss, divisor, x, target, var, eps, accumulate, grad);
}

}  // namespace lockstep
