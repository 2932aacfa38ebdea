#pragma once
#include <lockstep/comm/node/in_place.hpp>
#include <lockstep/comm/node/meeting.hpp>
#include <lockstep/comm/threads/core.hpp>

namespace lockstep {

/// An operation of a rank that is a thread: collectives meet on the board and go in the slots or in
/// place, messages through the mailbox.
class ThreadsInFlight final : public InFlight {
 public:
  ThreadsInFlight(ThreadsCore& core, Operation&& operation)
      : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {}
  ~ThreadsInFlight() override = default;

  [[nodiscard]] int source() const noexcept override { return message_.source; }
  [[nodiscard]] Tensor message() const override { return message_.message; }
  [[nodiscard]] bool cancelled() const noexcept override { return cancelled_; }

 private:
  [[nodiscard]] bool post() override;
  [[nodiscard]] Agreement agree() override;
  [[nodiscard]] std::string dispute() override;
  void begin() override;
  [[nodiscard]] Motion move() override;
  void give_up() noexcept override;
  void release() noexcept override;

  /// Each rank must get from this one what it expects.
  void expect_matching_lengths();

  ThreadsCore& core_;  // which the base class keeps alive
  Meeting meeting_;
  bool in_place_ = false;
  InPlace way_;
  MessageEnd message_;
  bool cancelled_ = false;
};

}  // namespace lockstep
