#pragma once
#include <lockstep/comm/engine/work_clock.hpp>
#include <lockstep/comm/mpi/node.hpp>
#include <lockstep/comm/node/hierarchical_plan.hpp>
#include <lockstep/comm/node/stages.hpp>

namespace lockstep {

/// A hierarchical collective, of a group on several nodes between which only their leaders send:
/// piece by piece through the nodes' staging buffers, one operation at a time. While the leaders
/// exchange one piece, their nodes combine the next.
class HierarchicalCollective {
 public:
  /// The same on every rank.
  [[nodiscard]] static bool fits(const MpiNode& node, const Operation& operation) noexcept;

  HierarchicalCollective(MpiNode& node, const Operation& operation, std::int64_t max_count)
      : plan_(node.staging()->map(), operation, max_count) {}

  enum class State : std::uint8_t { waiting, moved, over, mpi_failed };
  [[nodiscard]] State move(MpiNode& node, const Operation& operation, WorkClock& clock);
  /// MPI's, after State::mpi_failed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  [[nodiscard]] bool step(MpiNode& node, const Operation& operation, WorkClock& clock);
  [[nodiscard]] bool exchange_pieces(MpiNode& node, const Operation& operation, WorkClock& clock);

  HierarchicalPlan plan_;
  Stages stages_;
  // The leader's: pieces that were launched, and those that are over.
  std::int64_t launched_ = 0, over_ = 0;
  Stages combined_;
  int status_ = MPI_SUCCESS;
};

}  // namespace lockstep
