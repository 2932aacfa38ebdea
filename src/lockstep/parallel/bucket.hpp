#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/parallel/bucket_plan.hpp>

namespace lockstep {

/// Some parameters. Their values are contiguous in one memory, and their gradients in another, at
/// the same offsets; padding between them stays zero. So a collective takes a bucket's gradients as
/// one tensor, and an optimizer updates the bucket with one kernel.
struct Bucket {
  Tensor values, gradients;  ///< flat
  /// The last elements of `gradients`, summed with them. One per parameter: 1 if this rank has a
  /// gradient for it, so the sum is 0 for a parameter that no rank has used. The last one is 1 on
  /// ranks that answer yes (DistributedDataParallel::ask_along).
  Tensor notes;
  Tensor wide;  ///< f32, for scaling 16-bit gradients part by part; else undefined
  std::vector<Variable> parameters;

  /// The element of notes for parameters[parameter]; for parameters.size(), the answer.
  [[nodiscard]] Tensor note(std::size_t parameter) const {
    const auto at = static_cast<std::int64_t>(parameter);
    return notes.slice(at, at + 1);
  }
};

/// Throws Error unless the parameter's gradient lives in `memory`, where `wrapper`, a class of this
/// layer, has put it: else no sum over ranks would reach it.
void expect_gradient_in(const Tensor& memory, const Variable& parameter, const char* wrapper);

/// Whether any parameter of the bucket has a gradient.
[[nodiscard]] bool holds_any(const Bucket& bucket);
/// Multiplies the bucket's gradients. 16-bit ones are multiplied in f32 and rounded once. Allocates
/// nothing.
void scale_gradients(const Bucket& bucket, double factor);

/// Zeros for collectives of `group`: on the host a shared buffer. Collective over it.
[[nodiscard]] Tensor memory_to_reduce(ProcessGroup& group, const Shape& shape, DType dtype,
                                      Device device);

/// Moves the parameters and their gradients into the buckets of plan_buckets; earlier gradients are
/// dropped. On the host gradients are in shared buffers of `group`. Collective over it.
[[nodiscard]] std::vector<Bucket> lay_out_in_buckets(std::span<const Variable> parameters,
                                                     const BucketOptions& options,
                                                     ProcessGroup& group);

}  // namespace lockstep
