#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>
#include <lockstep/comm/flight_recorder.hpp>
#include <lockstep/comm/node_group.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/comm/progress_engine.hpp>

namespace lockstep {

class MpiWork;

/// A communicator and the operations in flight on it: what an MPI group and its Works share. It
/// outlives the group, so that a Work may be waited for after the group is gone, and it is owned by
/// mpi_lifetime until close() or MPI_Finalize.
class MpiCore final : public RefCounted<MpiCore>, public EngineMember {
 public:
  /// Collective over `comm`; waits for all of its ranks to the deadline.
  MpiCore(MPI_Comm comm, const GroupOptions& options);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] double work_seconds() const noexcept {
    return work_seconds_.load(std::memory_order_relaxed);
  }

  /// Numbers the operation and hands it to MPI. Also drives whatever else is in flight, so that
  /// operations whose Work was dropped end too.
  [[nodiscard]] Work start(Operation&& operation);
  /// Memory that collectives of this group handle in place. Collective.
  [[nodiscard]] IntrusivePtr<Storage> allocate_shared(std::size_t bytes);
  /// The group of `members`, ranks of this one: on each of them, in this order. Collective over
  /// them, who are all known to be on their way here.
  [[nodiscard]] IntrusivePtr<MpiCore> subgroup(const std::vector<int>& members);
  /// Drains what is in flight, waits for every rank to do so, frees the communicator. Collective.
  void close();
  /// Local: MPI_Finalize has begun. Nothing of MPI is touched after this.
  void at_finalize() noexcept;

  void progress_if_free() noexcept override;
  [[nodiscard]] std::string oldest_in_flight() override;

 private:
  friend class MpiWork;
  friend class RefCounted<MpiCore>;
  enum class State { open, poisoned, closed, finalized };

  MpiCore() = default;
  ~MpiCore() override { ProgressEngine::instance().remove(*this); }
  void release() noexcept { delete this; }

  [[nodiscard]] std::string speaker() const;  ///< "rank 1 of 4 (node12)"
  void expect_callable() const;               ///< throws where no call is possible any more
  void expect_right_thread() const;
  /// Keeps other threads, who move this group on while they wait for another, out of it meanwhile.
  [[nodiscard]] std::unique_lock<SpinLock> lock() const;
  void join_engine();
  [[nodiscard]] IntrusivePtr<MpiWork> oldest() const;
  /// Moves everything in flight on, oldest first: collectives reach MPI in the same order
  /// everywhere.
  void progress();
  void enlist(MpiWork* work) noexcept;
  void delist(MpiWork* work) noexcept;
  void retire() noexcept;
  /// Ends the group: later calls throw, buffers that MPI may still write to are kept for good.
  void poison(const std::string& reason) noexcept;
  void bury_all() noexcept;
  [[nodiscard]] MpiWait set_up(const std::string& doing) const;
  /// Which ranks of this node a collective waits for, and what they do instead.
  [[nodiscard]] std::string absentees(const MpiWork& work) const;
  /// The calls differ: this rank's and that of a rank of its node, or, -1, of another node, whose
  /// leaders then tell each other their calls.
  [[noreturn]] void mismatch(const MpiWork& work, int node_rank);
  [[nodiscard]] std::string other_nodes_call(const MpiWork& work) const;
  /// Ends the group because of what `work` found out.
  [[noreturn]] void fail(const MpiWork& work, const std::string& finding);
  [[noreturn]] void time_out(const MpiWork& work, double waited_s);
  [[noreturn]] void mpi_failed(const MpiWork& work, int status);

  /// Where shared memory is short: `why`, and what goes through MPI for it.
  void warn_of_shortage(const std::string& why, const char* consequence) const;
  /// Collective over `comm`; `doing` is for the message where the deadline passes.
  [[nodiscard]] MPI_Comm duplicate(MPI_Comm comm, const std::string& doing) const;
  /// All that belongs to a group whose comm_ there is. Collective over it.
  void make_the_rest();
  int free_communicators() noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Comm message_comm_ = MPI_COMM_NULL;  // for messages, so that any_source matches nothing else
  std::unique_ptr<NodeGroup> node_;
  FlightLog flight_;
  int rank_ = 0;
  int size_ = 1;
  GroupOptions options_;
  bool probes_ = true;  // must_probe()
  std::string host_;
  State state_ = State::open;
  std::string reason_;  // why the state is not open
  bool any_thread_ = true;
  std::thread::id owner_;  // the only thread that may call, unless any_thread_
  std::uint64_t sequence_ = 0;
  std::uint64_t message_sequence_ = 0;
  std::uint64_t on_their_way_ = 0;          // collectives up to this one are beyond agreeing
  const MpiWork* relaying_ = nullptr;       // whose pieces are in the node's relay
  std::atomic<bool> waiting_ = false;       // the caller is inside a wait
  std::atomic<double> work_seconds_ = 0.0;  // of those waits, spent on this rank's own part
  bool shared_by_threads_ = false;          // MPI grants MPI_THREAD_MULTIPLE
  mutable SpinLock lock_;
  MpiWork* first_ = nullptr;  // in flight, oldest first; each is owned by this list
  MpiWork* last_ = nullptr;
};

}  // namespace lockstep
