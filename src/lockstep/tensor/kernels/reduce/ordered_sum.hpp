#pragma once
#include <lockstep/tensor/kernels/for_each.hpp>

// Private to the kernels' .cpp files.

namespace lockstep {

/// `result`, f64 [1], becomes the sum over i in [0, n) of f(i), a double, on its device. The order
/// of additions depends on n alone: chunks of 65,536 in lanes, then the chunks in lanes. Allocates
/// nothing in a steady loop.
template <class Space, class F>
void ordered_sum_into(const Tensor& result, const char* label, const Space& space, std::int64_t n,
                      const F& f) {
  constexpr std::int64_t chunk = 65536;
  const std::int64_t whole = n / chunk, rest = n - whole * chunk;
  const Tensor sums = Tensor::empty({whole + 1}, DType::f64, result.device());
  const auto partial = view<Space, double, 1>(sums);
  const auto total = view<Space, double, 1>(result);
  for_each_row(
      label, space, whole, chunk, KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const double sum = lanes.sum([&](std::int64_t c) { return f(r * chunk + c); });
        lanes.once([&] { partial(r) = sum; });
      });
  for_each_row(
      label, space, 1, rest, KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const double sum = lanes.sum([&](std::int64_t c) { return f(whole * chunk + c); });
        lanes.once([&] { partial(whole) = sum; });
      });
  for_each_row(
      label, space, 1, whole + 1, KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const double sum = lanes.sum([&](std::int64_t c) { return partial(c); });
        lanes.once([&] { total(0) = sum; });
      });
}

/// The same, read by the host: `like` says of which device.
template <class Space, class F>
double ordered_sum(const char* label, const Space& space, const Tensor& like, std::int64_t n,
                   const F& f) {
  const Tensor result = Tensor::empty({1}, DType::f64, like.device());
  ordered_sum_into(result, label, space, n, f);
  return result.item();
}

/// x^2 as a double.
template <class View>
struct Squares {
  View x;
  KOKKOS_FUNCTION double operator()(std::int64_t i) const {
    const double value = x(i);
    return value * value;
  }
};
template <class View>
Squares(View) -> Squares<View>;

}  // namespace lockstep
