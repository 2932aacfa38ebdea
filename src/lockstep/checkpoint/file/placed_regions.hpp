#pragma once
#include <vector>

#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// A rank's part of a tensor, as regions of shape placement.by_parts(placement.global) whose
/// elements lie end to end in the rank's tensor of shape `local`, in ascending order. One region,
/// but of a run of a slab's elements up to 2 dims - 1, or none if it is empty. `placement` is that
/// of a part.
[[nodiscard]] std::vector<Region> placed_regions(const Placement& placement, const Shape& local);

}  // namespace lockstep
