#pragma once
#include <variant>

#include <lockstep/comm/mpi/by_mpi.hpp>
#include <lockstep/comm/mpi/core.hpp>
#include <lockstep/comm/mpi/hierarchical_collective.hpp>
#include <lockstep/comm/mpi/leader_rendezvous.hpp>
#include <lockstep/comm/node/in_place.hpp>
#include <lockstep/comm/node/rendezvous.hpp>
#include <lockstep/comm/node/staged_all_reduce.hpp>

namespace lockstep {

/// An operation of an MPI group. A collective's rendezvous is on each node's slot table, then among
/// the nodes' leaders. Its transfer is eager, zero-copy, staged, hierarchical, or by MPI: the same
/// on all ranks.
class MpiInFlight final : public InFlight {
 public:
  MpiInFlight(MpiCore& core, Operation&& operation)
      : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {}
  ~MpiInFlight() override = default;

  [[nodiscard]] int source() const noexcept override { return source_; }
  [[nodiscard]] Tensor message() const override { return message_; }
  [[nodiscard]] bool cancelled() const noexcept override { return cancelled_; }

 private:
  [[nodiscard]] bool rendezvous(bool is_next) override;
  [[nodiscard]] Motion transfer() override;
  void cancel_receive() noexcept override;
  void release() noexcept override;

  [[nodiscard]] CallMatch compare();
  [[nodiscard]] std::string mismatch();

  void launch();
  /// Lockstep's own algorithms; false if none applies.
  [[nodiscard]] bool launch_on_node();
  [[nodiscard]] bool launch_hierarchical();
  void call_mpi();
  [[nodiscard]] Motion move_by_mpi(ByMpi& algorithm);

  MpiCore& core_;  // which the base class keeps alive
  NodeRendezvous rendezvous_;
  LeaderRendezvous leader_rendezvous_;
  std::variant<std::monostate, InPlace, StagedAllReduce, HierarchicalCollective, ByMpi> algorithm_;
  bool is_launched_ = false;
  int source_ = -1;
  Tensor message_;
  bool cancelled_ = false;
};

}  // namespace lockstep
