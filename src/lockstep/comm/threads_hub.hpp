#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/local_collective.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

class ThreadsHub;

/// One rank's part in one operation. It is over when the last rank has arrived and done the work; a
/// message, when its other end has been called too.
class ThreadsWork final : public WorkRecord {
 public:
  ThreadsWork(std::shared_ptr<ThreadsHub> hub, int rank, Operation operation)
      : hub_(std::move(hub)), rank_(rank), operation_(std::move(operation)) {}
  ~ThreadsWork() override = default;

  bool poll() override;
  void wait() override;
  [[nodiscard]] int source() const noexcept override { return source_; }

 private:
  friend class ThreadsHub;
  enum class State { running, done, failed };

  void release() noexcept override;

  std::shared_ptr<ThreadsHub> hub_;
  int rank_;
  Operation operation_;
  int source_ = -1;
  std::atomic<State> state_{State::running};
};

/// Where ranks that are threads of one process meet. Collective number s of every rank goes to slot
/// s mod slots; the rank that arrives last sees everybody's tensors there, checks that the calls
/// agree, and does the whole operation, in rank order: same bits in every run. A message waits in a
/// list for its other end.
class ThreadsHub : public std::enable_shared_from_this<ThreadsHub> {
 public:
  ThreadsHub(int ranks, const GroupOptions& options);

  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] Work start(int rank, Operation operation);
  void wait(ThreadsWork& work);
  /// The hub of a group of `members` of this one's ranks, split off for the `number`th time: the
  /// same one for each of them, who each call this once.
  [[nodiscard]] std::shared_ptr<ThreadsHub> child(std::uint64_t number, int first_member,
                                                  int members);
  /// Ends the group, and those split off it, for every rank, unless it has ended already; `rank` is
  /// who failed first.
  void poison(int rank, const std::string& reason);
  [[nodiscard]] int failed_rank() const;  ///< the rank that failed first, or -1
  [[noreturn]] void refuse(int rank) const;
  /// After all ranks are gone: lets go of operations that never met, which hold this hub.
  void clear();

 private:
  // As many operations a rank may be ahead of the slowest before its next start waits.
  static constexpr std::uint64_t slots = 64;

  struct Slot {
    std::uint64_t sequence = 0;  // the operation it serves
    int arrived = 0;
    std::vector<IntrusivePtr<ThreadsWork>> works;  // by rank
    std::vector<const Operation*> calls;           // of the rank that executes it
    CollectiveScratch scratch;
  };
  struct Child {
    std::shared_ptr<ThreadsHub> hub;
    int awaited = 0;  // members that have not asked for it yet
  };

  [[nodiscard]] std::string speaker(int rank) const;
  [[nodiscard]] std::string missing_ranks(const Slot& slot) const;
  [[nodiscard]] std::string missing_peers(const ThreadsWork& work) const;
  void await_slot(std::unique_lock<std::mutex>& lock, int rank, const Operation& operation);
  [[nodiscard]] Work start_message(int rank, Operation operation);
  void deliver(ThreadsWork& sent, ThreadsWork& received);
  void execute(Slot& slot);
  void poison_locked(int rank, const std::string& reason);
  void refuse_locked(int rank) const;

  const int size_;
  const GroupOptions options_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> sequence_;              // by rank: its last collective's number
  std::vector<std::uint64_t> message_sequence_;      // by rank: its last message's
  std::vector<IntrusivePtr<ThreadsWork>> messages_;  // that wait for their other end, oldest first
  std::map<std::pair<std::uint64_t, int>, Child> children_;  // that not all members have yet
  std::vector<std::weak_ptr<ThreadsHub>> descendants_;
  std::string reason_;  // why the group failed; empty while it works
  int failed_rank_ = -1;
};

}  // namespace lockstep
