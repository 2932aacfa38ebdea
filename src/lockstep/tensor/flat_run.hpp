#pragma once
#include <cstdint>

#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// Of a tensor of shape `global`, elements [offset, offset + n) in row-major order, for a local
/// tensor of shape [n]: what a rank holds of a parameter that is cut without regard to its shape.
/// Its `offsets` have one dimension, whatever number `global` has.
[[nodiscard]] inline Placement flat_run(const Shape& global, std::int64_t offset) {
  return {true, global, Shape{offset}};
}

/// Whether it is one; false for a tensor of one dimension, whose runs are slabs.
[[nodiscard]] inline bool is_flat_run(const Placement& placement) {
  return placement.sharded && placement.offsets.dims() == 1 && placement.global.dims() != 1;
}

}  // namespace lockstep
