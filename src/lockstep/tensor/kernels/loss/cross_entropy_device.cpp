#include <lockstep/tensor/kernels/loss/cross_entropy_device.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/loss/loss_rows.hpp>
#include <lockstep/tensor/kernels/packed_row.hpp>
#include <lockstep/tensor/kernels/reduce/log_sum_exp_row.hpp>

namespace lockstep::detail {
namespace {

template <int n, class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& target,
                    const LossOptions& options, const Tensor& losses, const Tensor& row_stats) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = flat_view<Space, Wide>(losses);
  const auto stats = view<Space, Wide, 2>(row_stats);  // (maximum, log sum; rows)
  const ClassWeight<Wide, Space> weight(options.class_weight);
  const std::int64_t classes = x.size(1), ignored = options.ignore_index;
  const Wide smoothing = static_cast<Wide>(options.label_smoothing);
  const Wide even = smoothing / static_cast<Wide>(classes);
  for_each_row(
      "lockstep::cross_entropy_device_forward", space, target.numel(), classes / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t chosen = t(r);
        const PackedRow<n> row(r * classes, classes);
        const LargestAndSum<Wide> found = largest_and_sum(lanes, row, in);
        const Wide largest = found.largest, log_sum = std::log(found.sum);
        Wide loss{0};
        if (chosen != ignored) {
          const Wide x_chosen = static_cast<Wide>(in[r * classes + chosen]);
          loss = -(Wide{1} - smoothing) * weight(chosen) * (x_chosen - largest - log_sum);
          if (smoothing > Wide{0}) {
            loss -= even * row.template sum<Wide>(
                               lanes,
                               [&](std::int64_t c, Wide value) {
                                 return weight(c) * (value - largest - log_sum);
                               },
                               in);
          }
        }
        lanes.once([&] {
          stats(0, r) = largest;
          stats(1, r) = log_sum;
          out(r) = loss;
        });
      });
}

/// The gradient of cross_entropy.cpp's backward.
template <int n, class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_loss, const Tensor& divisor,
                     const Tensor& x, const Tensor& row_stats, const Tensor& target,
                     const ClassSlab& slab, const LossOptions& options, bool accumulate,
                     const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(grad_x).data();
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto stats = view<Space, const Wide, 2>(row_stats);
  const RowGradient<Wide, Space> grad(grad_loss, divisor, options.reduction);
  const SlabLoss<Wide, Space> of(slab, options);
  const std::int64_t classes = slab.count;
  for_each_row(
      "lockstep::cross_entropy_device_backward", space, target.numel(), classes / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * classes, classes);
        if (t(r) == of.ignored) {
          if (!accumulate) row.set(lanes, false, out, [](std::int64_t) { return Wide{0}; });
          return;
        }
        const std::int64_t chosen = of.column(t(r));
        const Wide g = grad(r), largest = stats(0, r), log_sum = stats(1, r);
        const Wide at_chosen = (Wide{1} - of.smoothing) * of.weight(t(r));
        Wide total = at_chosen;
        if (of.smoothing > Wide{0}) total += of.even * of.all_weights(lanes.of_width(classes));
        const Wide scale = g * total, pull = g * at_chosen, even_pull = g * of.even;
        const bool pulls_each = of.weight.given && of.smoothing > Wide{0};
        row.set(
            lanes, accumulate, out,
            [&](std::int64_t c, Wide value) {
              const Wide slope = scale * math::exp_or_zero(value - largest - log_sum);
              const Wide all = pulls_each ? even_pull * of.weight(of.first + c) : even_pull;
              return slope - all - (c == chosen ? pull : Wide{0});
            },
            in);
      });
}

}  // namespace

void cross_entropy_device_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                                  const Tensor& losses, const Tensor& row_stats) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "cross_entropy", [&]<class T>() {
      with_packed_rows<T>(x.size(1), {&x}, [&]<int n>() {
        forward_kernel<n, T>(space, x, target, options, losses, row_stats);
      });
    });
  });
}

void cross_entropy_device_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                                   const Tensor& stats, const Tensor& target, const ClassSlab& slab,
                                   const LossOptions& options, bool accumulate,
                                   const Tensor& grad_x) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "cross_entropy", [&]<class T>() {
      with_packed_rows<T>(x.size(1), {&x, &grad_x}, [&]<int n>() {
        backward_kernel<n, T>(space, grad_loss, divisor, x, stats, target, slab, options,
                              accumulate, grad_x);
      });
    });
  });
}

}  // namespace lockstep::detail
