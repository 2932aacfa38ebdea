#pragma once
// A part of the kernels of softmax and cross_entropy for a GPU. Private to their .cpp files.
#include <limits>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/packed_row.hpp>

namespace lockstep::detail {

/// Of a row: its largest element m and the sum of exp(x - m).
template <class Wide>
struct LargestAndSum {
  Wide largest, sum;
};

template <int n, class T, class Lanes>
KOKKOS_FUNCTION LargestAndSum<SumOf<T>> largest_and_sum(const Lanes& packs, const PackedRow<n>& row,
                                                        const T* x) {
  using Wide = SumOf<T>;
  constexpr Wide least = -std::numeric_limits<Wide>::infinity();
  const Wide largest = packs.max(least, [&](std::int64_t p) {
    Wide best = least;
    row.each(
        p, [&](std::int64_t, Wide value) { best = value > best ? value : best; }, x);
    return best;
  });
  const Wide sum = packs.sum([&](std::int64_t p) {
    return row.sum(
        p, [&](std::int64_t, Wide value) { return math::exp_or_zero(value - largest); }, x);
  });
  return {largest, sum};
}

}  // namespace lockstep::detail
