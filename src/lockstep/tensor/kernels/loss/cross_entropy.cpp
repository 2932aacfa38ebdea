#include <limits>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/loss/cross_entropy_device.hpp>
#include <lockstep/tensor/kernels/loss/loss_rows.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>

// log_softmax and nll_loss in one pass over each row; no intermediate result of x's size is stored.

namespace lockstep {
namespace {

using detail::are_device_rows;
using detail::as_device_rows;
using detail::ClassWeight;
using detail::dispatch_stored_rows;
using detail::RowGradient;
using detail::Rows;
using detail::SlabLoss;

template <bool contiguous, class T, class Space>
void forward_kernel(const Space& space, const Shape& shape, const Tensor& x, const Tensor& target,
                    const LossOptions& options, const Tensor& losses, const Tensor& row_stats) {
  using Wide = SumOf<T>;
  const Rows<const T, Space, contiguous> in(x, shape);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = flat_view<Space, Wide>(losses);
  const auto stats = view<Space, Wide, 2>(row_stats);  // (maximum, log sum; rows)
  const ClassWeight<Wide, Space> weight(options.class_weight);
  const std::int64_t classes = shape[1];
  const std::int64_t ignored = options.ignore_index;
  const Wide smoothing = static_cast<Wide>(options.label_smoothing);
  const Wide even = smoothing / static_cast<Wide>(classes);
  for_each_row(
      "lockstep::cross_entropy_forward", space, target.numel(), classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t chosen = t(r);
        const auto x_at = [&](std::int64_t c) { return static_cast<Wide>(in(r, c)); };
        const Wide largest = lanes.max(-std::numeric_limits<Wide>::infinity(), x_at);
        const Wide log_sum =
            std::log(lanes.sum([&](std::int64_t c) { return math::exp(x_at(c) - largest); }));
        Wide loss{0};
        if (chosen != ignored) {
          loss = -(Wide{1} - smoothing) * weight(chosen) * (x_at(chosen) - largest - log_sum);
          if (smoothing > Wide{0}) {
            loss -= even * lanes.sum([&](std::int64_t c) {
              return weight(c) * (x_at(c) - largest - log_sum);
            });
          }
        }
        lanes.once([&] {
          stats(0, r) = largest;
          stats(1, r) = log_sum;
          out(r) = loss;
        });
      });
}

// d losses[r] / d x[c] = p[c] ((1 - e) w[t] + (e / C) sum w) - (1 - e) w[t] [c = t] - (e / C) w[c],
// p = softmax(x); x has the columns of a slab of the classes.
template <bool contiguous, class T, class Space>
void backward_kernel(const Space& space, const Shape& shape, const Tensor& grad_loss,
                     const Tensor& divisor, const Tensor& x, const Tensor& row_stats,
                     const Tensor& target, const ClassSlab& slab, const LossOptions& options,
                     bool accumulate, const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const Rows<const T, Space, contiguous> in(x, shape);
  const Rows<T, Space, contiguous> result(grad_x, shape);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto stats = view<Space, const Wide, 2>(row_stats);
  const RowGradient<Wide, Space> grad(grad_loss, divisor, options.reduction);
  const SlabLoss<Wide, Space> of(slab, options);
  for_each_row(
      "lockstep::cross_entropy_backward", space, target.numel(), slab.count,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        if (t(r) == of.ignored) {
          if (!accumulate) lanes.each([&](std::int64_t c) { result(r, c) = T{}; });
          return;
        }
        const std::int64_t chosen = of.column(t(r));
        const Wide g = grad(r), largest = stats(0, r), log_sum = stats(1, r);
        const Wide at_chosen = (Wide{1} - of.smoothing) * of.weight(t(r));
        Wide total = at_chosen;
        if (of.smoothing > Wide{0}) total += of.even * of.all_weights(lanes);
        const Wide scale = g * total, pull = g * at_chosen, even_pull = g * of.even;
        const Wide common_pull = of.weight.given ? Wide{0} : even_pull;
        const auto gradient = [&](std::int64_t c) {
          const Wide x_at = static_cast<Wide>(in(r, c));
          const Wide value = scale * math::exp(x_at - largest - log_sum) - common_pull;
          return c == chosen ? value - pull : value;
        };
        const auto store = [&](const auto& gradient_at) {
          if (accumulate) {
            lanes.each([&](std::int64_t c) {
              result(r, c) = static_cast<T>(static_cast<Wide>(result(r, c)) + gradient_at(c));
            });
          } else {
            lanes.each([&](std::int64_t c) { result(r, c) = static_cast<T>(gradient_at(c)); });
          }
        };
        // Class weights have a loop of their own: with them GCC 12 does not vectorise the
        // exponentials. A gradient of 16 bits would be rounded twice.
        const bool pulls_each = of.weight.given && of.smoothing > Wide{0};
        if constexpr (sizeof(T) == 2) {
          if (pulls_each) {
            return store(
                [&](std::int64_t c) { return gradient(c) - even_pull * of.weight(of.first + c); });
          }
        }
        store(gradient);
        if (sizeof(T) != 2 && pulls_each) {
          lanes.each([&](std::int64_t c) {
            result(r, c) = static_cast<T>(static_cast<Wide>(result(r, c)) -
                                          even_pull * of.weight(of.first + c));
          });
        }
      });
}

}  // namespace

void cross_entropy_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                           const Tensor& losses, const Tensor& row_stats) {
  if (are_device_rows(x, 1)) {
    return detail::cross_entropy_device_forward(as_device_rows(x, 1), target, options, losses,
                                                row_stats);
  }
  dispatch_stored_rows(
      "cross_entropy", x, 1, [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
        forward_kernel<contiguous, T>(space, shape, x, target, options, losses, row_stats);
      });
}

void cross_entropy_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                            const Tensor& row_stats, const Tensor& target,
                            const LossOptions& options, bool accumulate, const Tensor& grad_x) {
  const ClassSlab all{.first = 0, .count = x.size(1), .classes = x.size(1)};
  cross_entropy_slab_backward(grad_loss, divisor, x, row_stats, target, all, options, accumulate,
                              grad_x);
}

void cross_entropy_slab_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                                 const Tensor& stats, const Tensor& target, const ClassSlab& slab,
                                 const LossOptions& options, bool accumulate,
                                 const Tensor& grad_x) {
  if (slab.count == 0) return;
  if (are_device_rows(x, 1)) {
    return detail::cross_entropy_device_backward(grad_loss, divisor, as_device_rows(x, 1), stats,
                                                 target, slab, options, accumulate,
                                                 as_device_rows(grad_x, 1));
  }
  dispatch_stored_rows("cross_entropy", x, 1,
                       [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                         backward_kernel<contiguous, T>(space, shape, grad_loss, divisor, x, stats,
                                                        target, slab, options, accumulate, grad_x);
                       });
}

}  // namespace lockstep
