#pragma once

namespace lockstep {

/// How a rank has spent its time inside wait(), in seconds.
struct WaitTimes {
  /// On its own part of collectives: sums and copies in shared memory. The rest was for others.
  double work_s = 0.0;
  /// Time spent waiting for stragglers: ranks that had not entered the collective. Excludes waits
  /// of some microseconds, and waits that the group cannot see because nothing is compared
  /// (GroupOptions::contract) and MPI alone moves the bytes.
  double straggler_s = 0.0;
};

}  // namespace lockstep
