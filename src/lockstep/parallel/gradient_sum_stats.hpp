#pragma once
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Bytes of gradients that a rank has given to collectives, and what AllReduceHook would have
/// given.
struct HookTraffic {
  std::int64_t sent = 0, replaced = 0;
};

/// What sums of gradients have cost since construction.
struct GradientSumStats {
  /// Seconds at the end of backward until the sums were there: communication that computation did
  /// not hide.
  double wait_s = 0.0;
  double work_s = 0.0;       ///< of these, sums and copies of this rank's own in shared memory
  double straggler_s = 0.0;  ///< of these, until the last rank had entered (WaitTimes)
  /// Within a body of for_each_shard(): seconds that this shard has waited while others of this
  /// rank had their turn; else 0.
  double turn_wait_s = 0.0;
  HookTraffic traffic = {};  ///< what this rank has sent
  std::size_t buckets = 0;   ///< all-reduces a sum
};

}  // namespace lockstep
