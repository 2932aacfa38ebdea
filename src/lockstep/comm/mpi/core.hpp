#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>
#include <lockstep/comm/engine/datagram_notifier.hpp>
#include <lockstep/comm/engine/group_core.hpp>
#include <lockstep/comm/mpi/calls.hpp>
#include <lockstep/comm/mpi/node.hpp>

namespace lockstep {

/// The core of an MPI group: how its ranks reach each other, and its node. It is owned by
/// mpi/lifetime until close() or MPI_Finalize.
class MpiCore final : public GroupCore {
 public:
  /// Collective over `comm`; waits for all of its ranks to the deadline.
  MpiCore(MPI_Comm comm, const GroupOptions& options);

  /// Memory that collectives of this group handle in place. Collective.
  [[nodiscard]] IntrusivePtr<Storage> allocate_shared(std::size_t bytes);
  /// The group of `members`, ranks of this one: on each of them, in this order. Collective over
  /// them; all must be known to call it.
  [[nodiscard]] IntrusivePtr<MpiCore> subgroup(const std::vector<int>& members);
  /// See MessagePort. Collective.
  void enable_wakeup(std::chrono::microseconds awake, bool by_datagrams);
  /// Once somebody owns it.
  void join_engine();
  /// Completes operations in flight, waits until every rank has, and frees MPI objects that no
  /// other group needs. Collective.
  void close();
  /// By a probe for messages: at most every 50 us a process.
  void progress_transport() noexcept override;
  /// Local: MPI_Finalize has begun. Nothing of MPI is touched after this.
  void at_finalize() noexcept;

  /// For its operations:
  [[nodiscard]] MpiNode& node() noexcept { return *node_; }
  [[nodiscard]] const MpiRanks& ranks() const noexcept { return ranks_; }
  [[nodiscard]] MpiPlace place() const noexcept;
  [[nodiscard]] PendingReceives& pending_receives() noexcept { return pending_receives_; }
  /// A message has been sent to the rank: wakes it if it sleeps and can be woken.
  void notify(int rank) noexcept;
  /// Waits during set-up for the other ranks, which do the same.
  [[nodiscard]] MpiWait set_up(const std::string& doing) const;

 private:
  MpiCore(const GroupOptions& options, int pretended_node);
  ~MpiCore() override = default;

  [[nodiscard]] IntrusivePtr<InFlight> make(Operation&& operation) override;
  [[nodiscard]] DeviceReach reach_of(const Operation& operation) const noexcept override;
  [[nodiscard]] std::string missing_ranks(const InFlight& work) const override;
  void retire(std::uint64_t sequence) noexcept override { (*node_)->slot_table().retire(sequence); }
  void expect_right_thread() const override;
  [[nodiscard]] EventCount& event() noexcept override {
    return (*node_)->slot_table().event_of((*node_)->rank());
  }
  [[nodiscard]] bool is_notified_by_all() const noexcept override {
    return (*node_)->is_whole_group();
  }

  /// Logs that shared memory is short: `why`, and the operations that go through MPI for it.
  void warn_of_shortage(const std::string& why, const char* consequence) const;
  /// Makes the parts of a group from its ranks_. Collective over it.
  void make_the_rest();

  MpiRanks ranks_;
  std::unique_ptr<MpiNode> node_;
  std::unique_ptr<DatagramNotifier> datagram_notifier_;  // of ranks on other nodes
  PendingReceives pending_receives_;
  int pretended_node_ = 0;  ///< number of the one that this rank is on
  bool probes_ = true;      ///< must_probe()
  int thread_level_ = MPI_THREAD_SINGLE;
  std::thread::id owner_ = std::this_thread::get_id();  // thread that may call, below SERIALIZED
};

}  // namespace lockstep
