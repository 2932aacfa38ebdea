#pragma once
#include <cstddef>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/sharded/fully_shard_options.hpp>

namespace lockstep {

/// Bytes of a rank that trains a model with FullyShardedDataParallel, besides activations and the
/// model's buffers. With P elements of the parameters, of the root unit's R and the largest other
/// unit's U, padding left out, and s, f and g the bytes of an element of shards, of gathered values
/// and of whole gradients:
///   values, gradients   s P / ranks each; with param_dtype another f P / ranks of values
///   optimizer           slots s P / ranks
///   gathered            f (R + 2 U); with reshard_after_forward = false f P
///   whole_gradients     g (R + 2 U)
struct ShardedMemory {
  std::size_t values = 0, gradients = 0, optimizer = 0, gathered = 0, whole_gradients = 0;
  [[nodiscard]] std::size_t total() const noexcept {
    return values + gradients + optimizer + gathered + whole_gradients;
  }
};

/// Of an undivided `model` over `ranks` ranks, those of a sharded group where there are replicas,
/// with an optimizer that keeps `slots` tensors a parameter (AdamW: 2). A pure function, for any
/// number of ranks. Throws InputError for an unknown unit.
[[nodiscard]] ShardedMemory sharded_memory(const nn::Module& model, int ranks,
                                           const FullyShardOptions& options, int slots);

}  // namespace lockstep
