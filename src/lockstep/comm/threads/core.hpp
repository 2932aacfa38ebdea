#pragma once
#include <memory>
#include <string>

#include <lockstep/comm/engine/group_core.hpp>
#include <lockstep/comm/threads/shared_state.hpp>

namespace lockstep {

/// The core of one rank of a group whose ranks are threads of this process.
class ThreadsCore final : public GroupCore {
 public:
  /// The shared keeps it, and other threads may move it on.
  static IntrusivePtr<ThreadsCore> join(std::shared_ptr<SharedState> shared, int rank);

  [[nodiscard]] SharedState& shared() noexcept { return *shared_; }
  [[nodiscard]] ComputeNode& node() noexcept { return shared_->node(rank()); }
  /// The rank's thread has ended, and all others.
  void end() noexcept;

 private:
  ThreadsCore(std::shared_ptr<SharedState> shared, int rank);
  ~ThreadsCore() override = default;

  [[nodiscard]] IntrusivePtr<InFlight> make(Operation&& operation) override;
  [[nodiscard]] std::string missing_ranks(const InFlight& work) const override;
  void retire(std::uint64_t sequence) noexcept override { node().slot_table().retire(sequence); }
  void keep_abandoned(const IntrusivePtr<WorkRecord>& record) noexcept override {
    shared_->keep_abandoned(record);
  }
  [[nodiscard]] EventCount& event() noexcept override {
    return node().slot_table().event_of(rank());
  }
  [[nodiscard]] bool is_notified_by_all() const noexcept override { return true; }
  void spread_failure(const std::string& reason) noexcept override {
    shared_->fail(rank(), reason);
  }
  [[nodiscard]] const std::string* failure_elsewhere() const noexcept override {
    return shared_->failure();
  }

  std::shared_ptr<SharedState> shared_;
};

}  // namespace lockstep
