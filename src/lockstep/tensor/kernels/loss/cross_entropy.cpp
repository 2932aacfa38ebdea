#include <limits>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/loss/loss_rows.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>

// log_softmax and nll_loss in one pass over each row; no intermediate result of x's size is stored.

namespace lockstep {
namespace {

using detail::ClassWeight;
using detail::dispatch_rows;
using detail::RowGradient;
using detail::Rows;
using detail::SlabLoss;

template <bool contiguous, class T, class Space>
void forward_kernel(const Space& space, const Shape& shape, const Tensor& x, const Tensor& target,
                    const LossOptions& options, const Tensor& losses, const Tensor& row_stats) {
  const Rows<const T, Space, contiguous> in(x, shape);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = flat_view<Space, T>(losses);
  const auto stats = view<Space, T, 2>(row_stats);  // (maximum, log sum; rows)
  const ClassWeight<T, Space> weight(options.class_weight);
  const std::int64_t classes = shape[1];
  const std::int64_t ignored = options.ignore_index;
  const T smoothing = static_cast<T>(options.label_smoothing);
  const T even = smoothing / static_cast<T>(classes);
  for_each_row(
      "lockstep::cross_entropy_forward", space, target.numel(), classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t chosen = t(r);
        const T largest = lanes.max(-std::numeric_limits<T>::infinity(),
                                    [&](std::int64_t c) { return in(r, c); });
        const T log_sum =
            std::log(lanes.sum([&](std::int64_t c) { return math::exp(in(r, c) - largest); }));
        T loss{0};
        if (chosen != ignored) {
          loss = -(T{1} - smoothing) * weight(chosen) * (in(r, chosen) - largest - log_sum);
          if (smoothing > T{0}) {
            loss -= even * lanes.sum([&](std::int64_t c) {
              return weight(c) * (in(r, c) - largest - log_sum);
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
  const Rows<const T, Space, contiguous> in(x, shape);
  const Rows<T, Space, contiguous> result(grad_x, shape);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto stats = view<Space, const T, 2>(row_stats);
  const RowGradient<T, Space> grad(grad_loss, divisor, options.reduction);
  const SlabLoss<T, Space> of(slab, options);
  for_each_row(
      "lockstep::cross_entropy_backward", space, target.numel(), slab.count,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        if (t(r) == of.ignored) {
          if (!accumulate) lanes.each([&](std::int64_t c) { result(r, c) = T{0}; });
          return;
        }
        const std::int64_t chosen = of.column(t(r));
        const T g = grad(r), largest = stats(0, r), log_sum = stats(1, r);
        const T at_chosen = (T{1} - of.smoothing) * of.weight(t(r));
        T total = at_chosen;
        if (of.smoothing > T{0}) total += of.even * of.all_weights(lanes);
        // Class weights have a loop of their own: with them GCC 12 does not vectorise the
        // exponentials.
        const T scale = g * total, pull = g * at_chosen, even_pull = g * of.even;
        const T common_pull = of.weight.given ? T{0} : even_pull;
        const auto gradient = [&](std::int64_t c) {
          const T value = scale * math::exp(in(r, c) - largest - log_sum) - common_pull;
          return c == chosen ? value - pull : value;
        };
        if (accumulate) {
          lanes.each([&](std::int64_t c) { result(r, c) += gradient(c); });
        } else {
          lanes.each([&](std::int64_t c) { result(r, c) = gradient(c); });
        }
        if (of.weight.given && of.smoothing > T{0}) {
          lanes.each([&](std::int64_t c) { result(r, c) -= even_pull * of.weight(of.first + c); });
        }
      });
}

}  // namespace

void cross_entropy_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                           const Tensor& losses, const Tensor& row_stats) {
  dispatch_rows(
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
  dispatch_rows("cross_entropy", x, 1,
                [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                  backward_kernel<contiguous, T>(space, shape, grad_loss, divisor, x, stats, target,
                                                 slab, options, accumulate, grad_x);
                });
}

}  // namespace lockstep
