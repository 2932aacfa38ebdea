#pragma once
#include <cstdint>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/parallel/collectives.hpp>

// Borders between tensors that all ranks of a group hold alike (replicated) and shared-out ones: a
// rank's part of a computation, or its slab of the activations along one dimension. Megatron-LM's
// mappings (Shoeybi et al. 2019, arXiv:1909.08053, section 3; Korthikanti et al. 2022,
// arXiv:2205.05198, section 4.2.2).
//
// All ranks hold the same loss, so a replicated value has its whole gradient on every rank. This
// differs from the rule of collectives.hpp, where a rank gets the gradient of the sum of all ranks'
// losses.
//
// Collective, forward and backward: all ranks call the same functions in the same order with equal
// shapes, and all run backward. Derivatives of any order. Throws as ProcessGroup's functions do.

namespace lockstep {

/// Replicated -> the input of each rank's part of a computation: x itself. Backward: all_reduce of
/// the parts' gradients. Megatron's f.
[[nodiscard]] Variable copy_to_group(const Variable& x, const GroupPtr& group);
/// Each rank's part of a sum -> the sum, replicated. Backward: nothing is sent. Megatron's g.
[[nodiscard]] Variable reduce_from_group(const Variable& x, const GroupPtr& group);

/// Replicated -> elements [start, start + length) of dimension `dim`, other ones on each rank, all
/// of them together. Backward: all_reduce.
[[nodiscard]] Variable scatter_to_group(const Variable& x, int dim, std::int64_t start,
                                        std::int64_t length, const GroupPtr& group);
/// The other way: elements [start, start + x's extent) on each rank -> all `whole` elements,
/// replicated. Backward: nothing is sent.
[[nodiscard]] Variable gather_from_group(const Variable& x, int dim, std::int64_t start,
                                         std::int64_t whole, const GroupPtr& group);

/// Equal slabs along `dim`, in rank order -> the whole as the input of each rank's part of a
/// computation. Backward: reduce_scatter of the parts' gradients.
[[nodiscard]] Variable all_gather_along(const Variable& x, int dim, const GroupPtr& group);
/// Each rank's part of a sum -> this rank's slab of the sum along `dim`. Backward: all_gather.
/// Throws ShapeError unless the ranks divide the extent.
[[nodiscard]] Variable reduce_scatter_along(const Variable& x, int dim, const GroupPtr& group);

/// Elements of a dimension.
struct Slice {
  std::int64_t first = 0, count = 0;
};
/// This rank's slab of `extent` elements cut into equal ones. Throws ShapeError, the same on every
/// rank, unless the ranks divide the extent; `what` begins the sentence.
[[nodiscard]] Slice equal_slice(const char* what, std::int64_t extent, const ProcessGroup& group);

}  // namespace lockstep
