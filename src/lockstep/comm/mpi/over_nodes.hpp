#pragma once
#include <lockstep/comm/engine/work_clock.hpp>
#include <lockstep/comm/mpi/node.hpp>
#include <lockstep/comm/node/crossing.hpp>
#include <lockstep/comm/node/stages.hpp>

namespace lockstep {

/// A collective of a group on several nodes, between which only their leaders send: piece by piece
/// through the nodes' depots, one operation at a time. While the leaders exchange one piece, their
/// nodes collect the next.
class OverNodes {
 public:
  /// The same on every rank.
  [[nodiscard]] static bool fits(const MpiNode& node, const Operation& operation) noexcept;

  OverNodes(MpiNode& node, const Operation& operation, std::int64_t max_count)
      : crossing_(node.depot()->map(), operation, max_count) {}

  enum class State : std::uint8_t { waiting, moved, over, mpi_failed };
  [[nodiscard]] State move(MpiNode& node, const Operation& operation, WorkClock& clock);
  /// MPI's, after State::mpi_failed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  [[nodiscard]] bool step(MpiNode& node, const Operation& operation, WorkClock& clock);
  [[nodiscard]] bool lead(MpiNode& node, const Operation& operation, WorkClock& clock);

  Crossing crossing_;
  Stages stages_;
  // The leader's: pieces that have set out, and those whose result has come.
  std::int64_t out_ = 0, back_ = 0;
  Stages collected_;
  int status_ = MPI_SUCCESS;
};

}  // namespace lockstep
