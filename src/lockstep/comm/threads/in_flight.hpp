#pragma once
#include <lockstep/comm/node/in_place.hpp>
#include <lockstep/comm/node/rendezvous.hpp>
#include <lockstep/comm/threads/core.hpp>

namespace lockstep {

/// An operation of a rank that is a thread: the rendezvous of a collective is on the slot table,
/// its transfer is eager or zero-copy; messages go through the mailbox.
class ThreadsInFlight final : public InFlight {
 public:
  ThreadsInFlight(ThreadsCore& core, Operation&& operation)
      : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {}
  ~ThreadsInFlight() override = default;

  [[nodiscard]] int source() const noexcept override { return message_.source; }
  [[nodiscard]] Tensor message() const override { return message_.message; }
  [[nodiscard]] bool cancelled() const noexcept override { return cancelled_; }

 private:
  [[nodiscard]] bool rendezvous(bool is_next) override;
  [[nodiscard]] Motion transfer() override;
  void cancel_receive() noexcept override;
  void release() noexcept override;

  void launch();
  /// Each rank must expect from this one the number of elements that it sends.
  void expect_matching_lengths();

  ThreadsCore& core_;  // which the base class keeps alive
  NodeRendezvous rendezvous_;
  bool is_launched_ = false;
  bool in_place_ = false;
  InPlace algorithm_;
  MessageEnd message_;
  bool cancelled_ = false;
};

}  // namespace lockstep
