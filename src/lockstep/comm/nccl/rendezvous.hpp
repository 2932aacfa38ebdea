#pragma once
#include <memory>
#include <string>

#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// The rendezvous of the ranks of an nccl group at one collective: they all-gather fingerprints
/// over the control group before anything is given to the device. Where these differ, the ranks
/// send each other their calls, by messages on a group that carries no others between collectives.
class NcclRendezvous {
 public:
  NcclRendezvous();
  ~NcclRendezvous();
  NcclRendezvous(const NcclRendezvous&) = delete;
  NcclRendezvous& operator=(const NcclRendezvous&) = delete;

  /// Once, in the order of the calls, which is the control group's too.
  void post(ProcessGroup& control, const Operation& operation, Contract contract);
  /// Does not wait.
  [[nodiscard]] CallMatch compare(ProcessGroup& messages, const Operation& operation);
  /// After a mismatch: who called what.
  [[nodiscard]] std::string mismatch(const Operation& operation) const;
  /// Which ranks have not posted, as far as the control group knows.
  [[nodiscard]] std::string awaited() const { return work_.awaited(); }

 private:
  struct Dispute;

  [[nodiscard]] const std::int64_t* row(int rank) const;
  [[nodiscard]] int deviant() const;
  [[nodiscard]] bool agrees() const;
  void begin_dispute(ProcessGroup& messages, const Operation& operation);

  bool posted_ = false;
  int size_ = 0;
  Tensor mine_, all_;  // [2], [size, 2] of i64: fingerprint, and lengths of an exchange
  Work work_;
  std::unique_ptr<Dispute> dispute_;
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
