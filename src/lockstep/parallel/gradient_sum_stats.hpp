#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Bytes of gradients that a rank has sent, and that AllReduceHook would have sent.
struct HookTraffic {
  std::int64_t sent = 0, replaced = 0;
};

/// Cost of gradient sums since construction, and the last one's loss.
struct GradientSumStats {
  /// Seconds at the end of backward until the sums were complete: communication not hidden by
  /// computation.
  double wait_s = 0.0;
  double work_s = 0.0;       ///< of these, this rank's own sums and copies in shared memory
  double straggler_s = 0.0;  ///< of these, waiting until the last rank had entered (WaitTimes)
  HookTraffic traffic = {};  ///< bytes sent by this rank
  std::size_t buckets = 0;   ///< all-reduces per sum
  /// With DdpOptions::shards, after a step and until the next: the sum over all shards of weight x
  /// loss, without a loss scale, the same bits on all ranks. f64 [1] on the model's device.
  Tensor loss_of_batch;
};

}  // namespace lockstep
