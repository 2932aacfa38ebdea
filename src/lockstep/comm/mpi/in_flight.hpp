#pragma once
#include <variant>

#include <lockstep/comm/mpi/by_mpi.hpp>
#include <lockstep/comm/mpi/core.hpp>
#include <lockstep/comm/mpi/nodes_meeting.hpp>
#include <lockstep/comm/mpi/over_nodes.hpp>
#include <lockstep/comm/node/in_place.hpp>
#include <lockstep/comm/node/meeting.hpp>
#include <lockstep/comm/node/relay.hpp>

namespace lockstep {

/// An operation of an MPI group. A collective's ranks meet on their node's board, and the nodes by
/// their leaders; then it goes, all ranks alike, in the slots, in place, by relay, over the nodes'
/// leaders, or by MPI.
class MpiInFlight final : public InFlight {
 public:
  MpiInFlight(MpiCore& core, Operation&& operation)
      : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {}
  ~MpiInFlight() override = default;

  [[nodiscard]] int source() const noexcept override { return source_; }
  [[nodiscard]] Tensor message() const override { return message_; }
  [[nodiscard]] bool cancelled() const noexcept override { return cancelled_; }

 private:
  [[nodiscard]] bool post() override;
  [[nodiscard]] Agreement agree() override;
  [[nodiscard]] std::string dispute() override;
  void begin() override;
  [[nodiscard]] Motion move() override;
  void give_up() noexcept override;
  void release() noexcept override;

  /// The ways that are ours; false where there is none.
  [[nodiscard]] bool begin_on_node();
  [[nodiscard]] bool begin_over_nodes();
  void call_mpi();
  [[nodiscard]] Motion move_by_mpi(ByMpi& way);
  [[nodiscard]] Motion move_over_nodes(OverNodes& way);
  void expect_success(int status);  ///< of MPI

  MpiCore& core_;  // which the base class keeps alive
  Meeting meeting_;
  NodesMeeting nodes_meeting_;
  std::variant<std::monostate, InPlace, Relay, OverNodes, ByMpi> way_;
  int source_ = -1;
  Tensor message_;
  bool cancelled_ = false;
};

}  // namespace lockstep
