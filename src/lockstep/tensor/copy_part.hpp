#pragma once
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// part = the part that a rank with this placement holds of `whole`, of shape placement.global
/// and part's dtype; on any devices, behind their current streams. All of it if the placement is
/// replicated. Throws ShapeError unless `part` lies within `whole`.
void copy_part(const Tensor& whole, const Placement& placement, const Tensor& part);

}  // namespace lockstep
