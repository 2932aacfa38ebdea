#pragma once
// The outputs, along a dimension, that an input element has a part in: kernels of backward passes
// collect from them, so that no two threads write to one place. Private to the kernels' .cpp files.
#include <cstdint>

#include <lockstep/tensor/view.hpp>

namespace lockstep::detail {

/// The outputs [begin, end) of a dimension.
struct OutputRange {
  std::int64_t begin, end;
};

/// The first of the outputs 0, ..., `to` - 1 whose place is at least `least`, else `to`; place(i)
/// never decreases.
template <class Place>
KOKKOS_FUNCTION std::int64_t first_output(const Place& place, std::int64_t to, std::int64_t least) {
  std::int64_t begin = 0, end = to;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (place(middle) < least) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace lockstep::detail
