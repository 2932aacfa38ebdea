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
  /// them, who are all known to be on their way here.
  [[nodiscard]] IntrusivePtr<MpiCore> subgroup(const std::vector<int>& members);
  /// See MessagePort. Collective.
  void enable_wakeup(std::chrono::microseconds awake, bool by_datagrams);
  /// Once somebody owns it.
  void join_engine();
  /// Drains what is in flight, waits for every rank to do so, and leaves MPI what nobody else
  /// needs. Collective.
  void close();
  /// Local: MPI_Finalize has begun. Nothing of MPI is touched after this.
  void at_finalize() noexcept;

  /// For its operations:
  [[nodiscard]] MpiNode& node() noexcept { return *node_; }
  [[nodiscard]] const MpiRanks& ranks() const noexcept { return ranks_; }
  [[nodiscard]] MpiPlace place() const noexcept;
  [[nodiscard]] PendingReceives& pending_receives() noexcept { return pending_receives_; }
  /// A message has been sent to the rank: wakes it if it sleeps, and there is a way.
  void notify(int rank) noexcept;
  /// How set-up waits for the other ranks, who are doing the same.
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

  /// Where shared memory is short: `why`, and what goes through MPI for it.
  void warn_of_shortage(const std::string& why, const char* consequence) const;
  /// All that belongs to a group whose ranks_ there are. Collective over it.
  void make_the_rest();

  MpiRanks ranks_;
  std::unique_ptr<MpiNode> node_;
  std::unique_ptr<DatagramNotifier> datagram_notifier_;  // of ranks on other nodes
  PendingReceives pending_receives_;
  int pretended_node_ = 0;  ///< number of the one that this rank is on
  bool probes_ = true;      ///< must_probe()
  int thread_level_ = MPI_THREAD_SINGLE;
  std::thread::id owner_ = std::this_thread::get_id();  // who may call, below SERIALIZED
};

}  // namespace lockstep
