#pragma once
#include <vector>

#include <mpi.h>
#include <lockstep/comm/mpi/ranks.hpp>
#include <lockstep/comm/node/hierarchical_plan.hpp>

namespace lockstep {

/// What the leaders of all nodes send each other for one piece of a collective, directly and in one
/// round or two: what is for everybody is cut into shares first, each of which one leader sends on,
/// so that no leader sends more than twice the piece. Only bytes travel, each element at its own
/// size: 16-bit floats as 16 bits.
class LeaderExchange {
 public:
  // These throw OperationFailure where MPI fails.
  /// Launches piece k, whose part of this node has been combined.
  void start(const MpiRanks& leaders, const HierarchicalPlan& plan, std::int64_t k);
  /// Goes on; true once the result is there.
  [[nodiscard]] bool move(const MpiRanks& leaders, const HierarchicalPlan& plan);

 private:
  class Round;
  void spread_shares(Round& round, const HierarchicalPlan& plan, std::int64_t share) const;

  std::int64_t k_ = 0;
  bool another_round_ = false;
  std::vector<MPI_Request> requests_;
};

}  // namespace lockstep
