#pragma once
// Shared by the kernels of nll_loss and cross_entropy.
#include <lockstep/tensor/kernels/loss/loss.hpp>
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
