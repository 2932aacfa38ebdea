#pragma once
#include <chrono>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// The messages of a group as servers (rpc) receive them: of any length, from any rank, awaited
/// without a deadline by a sleeping thread. A view of the group, which outlives it; they are sent
/// by ProcessGroup::isend. Thread-safe as the group's messages are.
class MessagePort {
 public:
  explicit MessagePort(ProcessGroup& group) noexcept : group_(&group) {}

  /// Receives one u8 message of any length from `peer`, or from any_source: Work::message().
  [[nodiscard]] Work irecv(int peer, int tag = 0) const;

  /// Work::wait_for with a poll phase of `awake` before the first sleep. `awake` = 0 sleeps at once
  /// and polls every 0.5 ms at most, unless a message wakes it.
  [[nodiscard]] static bool wait_for(Work& work, std::chrono::microseconds at_most,
                                     std::chrono::microseconds awake) {
    return !work.record_ || work.record_->wait_for(at_most, awake);
  }

  /// Wakes ranks on other machines too: a message from another machine is announced by a datagram
  /// (UDP). Without a wake-up, or if it is lost, a sleeping rank finds the message at its next
  /// poll, after 2 ms at most. Each rank tells the others how long it polls after a message
  /// (`awake`), as it needs no datagram then. With `by_datagrams` = false a rank opens no socket:
  /// nobody wakes it, and it wakes nobody. Before the first message. Collective; arguments may
  /// differ.
  void enable_wakeup(std::chrono::microseconds awake, bool by_datagrams) const;

 private:
  friend class Revocation;
  /// A receive from any rank whose message ends the group, and is the reason.
  [[nodiscard]] Work irecv_end(int tag) const;
  [[nodiscard]] Work irecv(int peer, int tag, bool ends_group) const;

  ProcessGroup* group_;
};

}  // namespace lockstep
