#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/engine/group_core.hpp>
#include <lockstep/comm/node/node.hpp>
#include <lockstep/comm/threads/mailbox.hpp>

namespace lockstep {

/// The shared state of a group's ranks that are threads of one process: a node in the process's
/// memory, a mailbox, and each other's failure. Thread-safe.
class SharedState : public std::enable_shared_from_this<SharedState> {
 public:
  SharedState(int ranks, const GroupOptions& options);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const GroupOptions& options() const noexcept { return options_; }
  [[nodiscard]] ComputeNode& node(int rank) noexcept {
    return *nodes_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Mailbox& mailbox() noexcept { return mailbox_; }

  /// The state of a group of `members` of this one's ranks, from the `number`th split: the same
  /// object for each of them; each calls this once.
  [[nodiscard]] std::shared_ptr<SharedState> child(std::uint64_t number, int first_member,
                                                   int members);
  /// Ends the group, and groups split from it, for every rank, unless it has ended already; `rank`
  /// is the first that failed.
  void fail(int rank, const std::string& reason);
  /// Why the group failed; nullptr while it works.
  [[nodiscard]] const std::string* failure() const noexcept {
    return failed_rank_.load(std::memory_order_acquire) < 0 ? nullptr : &reason_;
  }
  [[nodiscard]] int failed_rank() const noexcept { return failed_rank_; }  ///< or -1

  /// Keeps a rank's core, which others move on, until clear().
  void keep(const IntrusivePtr<GroupCore>& core);
  /// Keeps a record of a failed group, whose tensors a rank may still be reading.
  void keep_abandoned(const IntrusivePtr<WorkRecord>& record);
  /// After all ranks are gone: lets go of everything.
  void clear();

 private:
  struct Child {
    std::shared_ptr<SharedState> state;
    int awaited = 0;  // members that have not called for it yet
  };

  const GroupOptions options_;
  std::vector<std::unique_ptr<ComputeNode>> nodes_;  // by rank
  Mailbox mailbox_;
  std::atomic<int> failed_rank_ = -1;
  std::string reason_;                                       // written once, before failed_rank_
  std::mutex mutex_;                                         // guards the members below
  std::map<std::pair<std::uint64_t, int>, Child> children_;  // that not all members have yet
  std::vector<std::shared_ptr<SharedState>> descendants_;
  std::vector<IntrusivePtr<GroupCore>> cores_;
  std::vector<IntrusivePtr<WorkRecord>> kept_;
};

}  // namespace lockstep
