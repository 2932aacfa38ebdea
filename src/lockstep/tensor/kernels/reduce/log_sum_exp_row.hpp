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

/// In one pass: with 50,000 classes the rows under way fill more than the caches. NaN and a row of
/// -infinity alone give a sum of NaN.
template <int n, class T, class Lanes>
KOKKOS_FUNCTION LargestAndSum<SumOf<T>> largest_and_sum(const Lanes& lanes, const PackedRow<n>& row,
                                                        const T* x) {
  using Wide = SumOf<T>;
  constexpr Wide least = -std::numeric_limits<Wide>::infinity();
  const auto take = [](LargestAndSum<Wide> found, const auto& pack) {
    Wide largest = found.largest;
    pack([&](std::int64_t, Wide value) { largest = value > largest ? value : largest; });
    const Wide center = largest == least ? Wide{0} : largest;  // so far -infinity alone
    Wide part{0};
    pack([&](std::int64_t, Wide value) { part += math::exp_or_zero(value - center); });
    return LargestAndSum<Wide>{largest,
                               found.sum * math::exp_or_zero(found.largest - center) + part};
  };
  const auto own = row.fold(lanes, LargestAndSum<Wide>{least, Wide{0}}, take, x);
  const Wide largest = lanes.all_max(own.largest);
  return {largest, lanes.all_sum(own.sum * math::exp_or_zero(own.largest - largest))};
}

}  // namespace lockstep::detail
