#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/loss_rows.hpp>

// log_softmax and nll_loss in one pass over each row: nothing of x's size is stored.

namespace lockstep {
namespace {

using detail::by_class;
using detail::ClassWeight;
using detail::RowGradient;

template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& target,
                    const LossOptions& options, const Tensor& losses, const Tensor& row_stats) {
  const auto in = view<Space, const T, 3>(by_class(x));  // (samples, classes, positions)
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = flat_view<Space, T>(losses);
  const auto stats = view<Space, T, 2>(row_stats);  // (maximum, log sum; rows)
  const ClassWeight<T, Space> weight(options.class_weight);
  const std::int64_t classes = static_cast<std::int64_t>(in.extent(1));
  const std::int64_t positions = static_cast<std::int64_t>(in.extent(2));
  const std::int64_t ignored = options.ignore_index;
  const T smoothing = static_cast<T>(options.label_smoothing);
  const T even = smoothing / static_cast<T>(classes);
  for_each_row(
      "lockstep::cross_entropy_forward", space, target.numel(), classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t n = r / positions, i = r % positions, chosen = t(r);
        const T largest = lanes.max(-std::numeric_limits<T>::infinity(),
                                    [&](std::int64_t c) { return in(n, c, i); });
        const T log_sum =
            std::log(lanes.sum([&](std::int64_t c) { return std::exp(in(n, c, i) - largest); }));
        T loss{0};
        if (chosen != ignored) {
          loss = -(T{1} - smoothing) * weight(chosen) * (in(n, chosen, i) - largest - log_sum);
          if (smoothing > T{0}) {
            loss -= even * lanes.sum([&](std::int64_t c) {
              return weight(c) * (in(n, c, i) - largest - log_sum);
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
// p = softmax(x).
template <class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_loss, const Tensor& divisor,
                     const Tensor& x, const Tensor& row_stats, const Tensor& target,
                     const LossOptions& options, bool accumulate, const Tensor& grad_x) {
  const auto in = view<Space, const T, 3>(by_class(x));  // (samples, classes, positions)
  const auto result = view<Space, T, 3>(by_class(grad_x));
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto stats = view<Space, const T, 2>(row_stats);
  const RowGradient<T, Space> grad(grad_loss, divisor, options.reduction);
  const ClassWeight<T, Space> weight(options.class_weight);
  const std::int64_t classes = static_cast<std::int64_t>(in.extent(1));
  const std::int64_t positions = static_cast<std::int64_t>(in.extent(2));
  const std::int64_t ignored = options.ignore_index;
  const T smoothing = static_cast<T>(options.label_smoothing);
  const T even = smoothing / static_cast<T>(classes);
  for_each_row(
      "lockstep::cross_entropy_backward", space, target.numel(), classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t n = r / positions, i = r % positions, chosen = t(r);
        if (chosen == ignored) {
          if (!accumulate) lanes.each([&](std::int64_t c) { result(n, c, i) = T{0}; });
          return;
        }
        const T g = grad(r), largest = stats(0, r), log_sum = stats(1, r);
        const T at_chosen = (T{1} - smoothing) * weight(chosen);
        T total = at_chosen;
        if (smoothing > T{0}) {
          total += even * lanes.sum([&](std::int64_t c) { return weight(c); });
        }
        lanes.each([&](std::int64_t c) {
          const T before = accumulate ? result(n, c, i) : T{0};
          const T p = std::exp(in(n, c, i) - largest - log_sum);
          const T pull = (c == chosen ? at_chosen : T{0}) + even * weight(c);
          result(n, c, i) = before + g * (p * total - pull);
        });
      });
}

}  // namespace

void cross_entropy_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                           const Tensor& losses, const Tensor& row_stats) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "cross_entropy", [&]<class T>() {
      forward_kernel<T>(space, x, target, options, losses, row_stats);
    });
  });
}

void cross_entropy_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                            const Tensor& row_stats, const Tensor& target,
                            const LossOptions& options, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "cross_entropy", [&]<class T>() {
      backward_kernel<T>(space, grad_loss, divisor, x, row_stats, target, options, accumulate,
                         grad_x);
    });
  });
}

}  // namespace lockstep
