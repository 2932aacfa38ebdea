#pragma once
#include <string>

#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// The rendezvous of the ranks of an nccl group at one collective: they all-gather fingerprints
/// over the control group before anything is given to the device. If these differ, they exchange
/// their calls, in the only collective of the group that carries the lengths of messages.
class NcclRendezvous {
 public:
  /// Once, in the order of the calls, which is the control group's too. `time` is this rank's clock
  /// (LaunchOrder).
  void post(ProcessGroup& control, const Operation& operation, Contract contract,
            std::int64_t time);
  [[nodiscard]] bool is_posted() const noexcept { return posted_; }
  /// Does not wait.
  [[nodiscard]] CallMatch compare(ProcessGroup& messages, const Operation& operation);
  /// Once the calls are known to be equal: the largest of the ranks' clocks.
  [[nodiscard]] std::int64_t time() const;
  /// After a mismatch: the ranks and their calls. `rank`: this one.
  [[nodiscard]] std::string mismatch(const Operation& operation, int rank) const;
  /// Which ranks have not posted, as far as the control group knows.
  [[nodiscard]] std::string awaited() const { return work_.awaited(); }

 private:
  [[nodiscard]] const std::int64_t* row(int rank) const;
  [[nodiscard]] int deviant() const;
  [[nodiscard]] bool agrees() const;
  void exchange_calls(ProcessGroup& messages, const Operation& operation);

  bool posted_ = false;
  int size_ = 0;
  Tensor mine_, all_;  // [3], [size, 3] of i64: fingerprint, lengths of an exchange, clock
  Work work_;
  Tensor told_;  // after a mismatch: [size, bytes of a CallRecord], or [size, 1] of i64
  Work exchange_;
};

/// The two ends of a message tell each other its length before NCCL, which does not, gets it.
class NcclHandshake {
 public:
  void post(ProcessGroup& messages, const Operation& message);
  /// True once both know; then `finding` is empty if they agree.
  [[nodiscard]] bool look(std::string& finding);

 private:
  bool sends_ = false;
  Tensor mine_, theirs_;  // bytes
  Work telling_, hearing_;
};

}  // namespace lockstep
