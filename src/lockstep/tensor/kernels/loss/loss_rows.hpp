#pragma once
// Shared by the kernels of nll_loss, cross_entropy and its slabs.
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/loss/vocabulary_slab.hpp>
#include <lockstep/tensor/view.hpp>

namespace lockstep::detail {

/// x[N,C, ...] as (samples, classes, positions).
inline Tensor by_class(const Tensor& x) {
  std::int64_t positions = 1;
  for (int d = 2; d < x.dims(); ++d) positions *= x.size(d);
  return x.reshape({x.size(0), x.size(1), positions});
}

/// w[c] of an optional tensor of class weights; 1 without one.
template <class T, class Space>
struct ClassWeight {
  using View = decltype(view<Space, const T, 1>(Tensor()));
  View weights;
  bool given;

  explicit ClassWeight(const Tensor& t) : given(t.defined()) {
    if (given) weights = view<Space, const T, 1>(t);
  }
  [[nodiscard]] KOKKOS_FUNCTION T operator()(std::int64_t c) const {
    return given ? weights(c) : T{1};
  }
};

/// The numbers of cross_entropy that kernels read, for logits of a slab of the classes.
template <class T, class Space>
struct SlabLoss {
  ClassWeight<T, Space> weight;
  std::int64_t first, count, classes, ignored;
  T smoothing, even;

  SlabLoss(const ClassSlab& slab, const LossOptions& options)
      : weight(options.class_weight),
        first(slab.first),
        count(slab.count),
        classes(slab.classes),
        ignored(options.ignore_index),
        smoothing(static_cast<T>(options.label_smoothing)),
        even(smoothing / static_cast<T>(slab.classes)) {}

  /// Column of a target; -1 if it is not here.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t column(std::int64_t target) const {
    const std::int64_t c = target - first;
    return target == ignored || c < 0 || c >= count ? -1 : c;
  }
  /// Sum of the weights of [begin, end), for lanes over all classes.
  [[nodiscard]] KOKKOS_FUNCTION T total_weight(const Lanes<Space>& lanes, std::int64_t begin,
                                               std::int64_t end) const {
    if (!weight.given) return static_cast<T>(end - begin);
    const auto& w = weight;
    return lanes.sum([&](std::int64_t c) { return c >= begin && c < end ? w(c) : T{0}; });
  }
  /// The same of all classes, for lanes over the slab, which has at least one.
  [[nodiscard]] KOKKOS_FUNCTION T all_weights(const Lanes<Space>& lanes) const {
    if (!weight.given) return static_cast<T>(classes);
    const auto& w = weight;
    T total{0};
    std::int64_t begin = 0;
    for (; begin + count <= classes; begin += count) {
      total += lanes.sum([&](std::int64_t c) { return w(begin + c); });
    }
    const std::int64_t rest = classes - begin;
    if (rest > 0)
      total += lanes.sum([&](std::int64_t c) { return c < rest ? w(begin + c) : T{0}; });
    return total;
  }
};

/// The gradient that reaches row r's own loss, before weights.
template <class T, class Space>
struct RowGradient {
  using View = decltype(view<Space, const T, 1>(Tensor()));
  View grad, divisor;
  bool each;

  RowGradient(const Tensor& grad_loss, const Tensor& divided_by, Reduction reduction)
      : grad(flat_view<Space, const T>(grad_loss)), each(reduction == Reduction::none) {
    if (!each) divisor = flat_view<Space, const T>(divided_by);
  }
  [[nodiscard]] KOKKOS_FUNCTION T operator()(std::int64_t r) const {
    return each ? grad(r) : grad(0) / divisor(0);
  }
};

}  // namespace lockstep::detail
