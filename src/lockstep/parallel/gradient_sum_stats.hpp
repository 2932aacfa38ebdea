#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Bytes of gradients that a rank has sent, and what AllReduceHook would have sent.
struct HookTraffic {
  std::int64_t sent = 0, replaced = 0;
};

/// What sums of gradients have cost since construction, and the last one's loss.
struct GradientSumStats {
  /// Seconds at the end of backward until the sums were there: communication that computation did
  /// not hide.
  double wait_s = 0.0;
  double work_s = 0.0;       ///< of these, sums and copies of this rank's own in shared memory
  double straggler_s = 0.0;  ///< of these, until the last rank had entered (WaitTimes)
  HookTraffic traffic = {};  ///< what this rank has sent
  std::size_t buckets = 0;   ///< all-reduces a sum
  /// With DdpOptions::shards, after a step and until the next: its sum over all shards of weight x
  /// loss, without a loss scale, the same bits on all ranks. f64 [1] on the model's device.
  Tensor loss_of_batch;
};

}  // namespace lockstep
