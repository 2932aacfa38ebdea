#include <lockstep/tensor/kernels/loss/vocabulary_slab.hpp>

#include <limits>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/loss/loss_rows.hpp>

namespace lockstep {
namespace {

using detail::SlabLoss;

template <class T, class Space>
void rows_kernel(const Space& space, const Tensor& index, const ClassSlab& slab,
                 const Tensor& local, const Tensor& mask) {
  const auto in = flat_view<Space, const std::int64_t>(index);
  const auto row = flat_view<Space, std::int64_t>(local);
  const auto here = flat_view<Space, T>(mask);
  const std::int64_t first = slab.first, count = slab.count;
  for_each(
      "lockstep::rows_of_slab", space, index.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t c = in(i)-first;
        const bool inside = c >= 0 && c < count;
        row(i) = inside ? c : 0;
        here(i) = inside ? T{1} : T{0};
      });
}

template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& target,
                    const ClassSlab& slab, const LossOptions& options, const Tensor& stats) {
  using Wide = SumOf<T>;
  const auto in = view<Space, const T, 2>(x);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = view<Space, Wide, 2>(stats);
  const SlabLoss<Wide, Space> of(slab, options);
  for_each_row(
      "lockstep::cross_entropy_slab_forward", space, target.numel(), slab.count,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const auto x_at = [&](std::int64_t c) { return static_cast<Wide>(in(r, c)); };
        constexpr Wide least = -std::numeric_limits<Wide>::infinity();
        const Wide largest = lanes.max(least, x_at);
        // Another slab may have finite logits, so -infinity here is no reason for a NaN.
        const Wide base = largest == least ? Wide{0} : largest;
        const Wide sum = lanes.sum([&](std::int64_t c) { return math::exp(x_at(c) - base); });
        Wide all{0};
        if (of.smoothing > Wide{0}) {
          all =
              lanes.sum([&](std::int64_t c) { return of.weight(of.first + c) * (x_at(c) - base); });
        }
        const std::int64_t chosen = of.column(t(r));
        lanes.once([&] {
          out(0, r) = largest;
          out(1, r) = sum;
          out(2, r) = chosen < 0 ? Wide{0} : of.weight(of.first + chosen) * (x_at(chosen) - base);
          out(3, r) = all;
        });
      });
}

template <class T, class Space>
void rescale_kernel(const Space& space, const Tensor& maximum, const Tensor& target,
                    const ClassSlab& slab, const LossOptions& options, const Tensor& stats) {
  const auto most = flat_view<Space, const T>(maximum);
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto out = view<Space, T, 2>(stats);
  const SlabLoss<T, Space> of(slab, options);
  for_each_row(
      "lockstep::cross_entropy_slab_rescale", space, target.numel(), slab.classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const T behind = out(0, r) - most(r);
        const std::int64_t chosen = of.column(t(r));
        T all = out(3, r);
        if (of.smoothing > T{0} && of.count > 0)  // 0 classes times -infinity would be NaN
          all += behind * of.total_weight(lanes, of.first, of.first + of.count);
        lanes.once([&] {
          out(0, r) = most(r);
          out(1, r) *= math::exp(behind);
          if (chosen >= 0) out(2, r) += of.weight(of.first + chosen) * behind;
          out(3, r) = all;
        });
      });
}

template <class T, class Space>
void loss_kernel(const Space& space, const Tensor& target, const ClassSlab& slab,
                 const LossOptions& options, const Tensor& stats, const Tensor& losses) {
  const auto t = flat_view<Space, const std::int64_t>(target);
  const auto in = view<Space, T, 2>(stats);
  const auto out = flat_view<Space, T>(losses);
  const SlabLoss<T, Space> of(slab, options);
  for_each_row(
      "lockstep::cross_entropy_slab_loss", space, target.numel(), slab.classes,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const T log_sum = std::log(in(1, r));
        T loss{0};
        if (t(r) != of.ignored) {
          loss = -(T{1} - of.smoothing) * (in(2, r) - of.weight(t(r)) * log_sum);
          if (of.smoothing > T{0})
            loss -= of.even * (in(3, r) - of.total_weight(lanes, 0, of.classes) * log_sum);
        }
        lanes.once([&] {
          in(1, r) = log_sum;
          out(r) = loss;
        });
      });
}

std::string no_row(const IndexCheck& check, std::int64_t i, std::int64_t value) {
  return "embedding: index " + std::to_string(value) + " at position " + std::to_string(i) +
         " of " + to_string(check.indices) + " is not a row of the " + std::to_string(check.count) +
         " that the ranks hold together";
}

template <class F>
void dispatch_like(const Tensor& like, const F& f) {
  dispatch(current_stream(like.device()), [&](const auto& space) {
    dispatch_floating(like.dtype(), "cross_entropy",
                      [&]<class T>() { f.template operator()<T>(space); });
  });
}

}  // namespace

Tensor right_classes(const Tensor& index, const ClassSlab& slab) {
  return right_indices({.count = slab.classes, .sentence = no_row, .indices = index.shape()}, index,
                       0);
}

void rows_of_slab(const Tensor& index, const ClassSlab& slab, const Tensor& local,
                  const Tensor& mask) {
  dispatch_like(
      mask, [&]<class T>(const auto& space) { rows_kernel<T>(space, index, slab, local, mask); });
}

void cross_entropy_slab_forward(const Tensor& x, const Tensor& target, const ClassSlab& slab,
                                const LossOptions& options, const Tensor& stats) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "cross_entropy",
                    [&]<class T>() { forward_kernel<T>(space, x, target, slab, options, stats); });
  });
}

void cross_entropy_slab_rescale(const Tensor& maximum, const Tensor& target, const ClassSlab& slab,
                                const LossOptions& options, const Tensor& stats) {
  dispatch_like(stats, [&]<class T>(const auto& space) {
    rescale_kernel<T>(space, maximum, target, slab, options, stats);
  });
}

void cross_entropy_slab_loss(const Tensor& target, const ClassSlab& slab,
                             const LossOptions& options, const Tensor& stats,
                             const Tensor& losses) {
  dispatch_like(stats, [&]<class T>(const auto& space) {
    loss_kernel<T>(space, target, slab, options, stats, losses);
  });
}

}  // namespace lockstep
