#pragma once
#include <lockstep/comm/engine/in_flight.hpp>
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

  /// Both must outlive it.
  HierarchicalCollective(MpiNode& node, const Operation& operation, std::int64_t max_count)
      : node_(node), plan_(*node.staging(), operation, max_count) {}

  /// Makes progress. Throws OperationFailure if MPI fails.
  [[nodiscard]] Motion move(WorkClock& clock);

 private:
  [[nodiscard]] bool step(WorkClock& clock);
  [[nodiscard]] bool exchange_pieces(WorkClock& clock);

  MpiNode& node_;
  HierarchicalPlan plan_;
  Stages stages_;
  // On the leader: launched pieces, and completed pieces.
  std::int64_t launched_ = 0, over_ = 0;
  Stages combined_;
};

}  // namespace lockstep
