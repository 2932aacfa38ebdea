#pragma once
#include <vector>

#include <mpi.h>
#include <lockstep/comm/mpi/ranks.hpp>
#include <lockstep/comm/node/hierarchical_plan.hpp>

namespace lockstep {

/// The messages between all nodes' leaders for one piece of a collective, direct and in one or two
/// rounds: data for all nodes is split into shares first, and one leader forwards each share, so no
/// leader sends more than twice the piece. Only bytes travel, each element at its own size: 16-bit
/// floats as 16 bits.
class LeaderExchange {
 public:
  // These throw OperationFailure if MPI fails.
  /// Launches piece k, after this node's part of it has been combined.
  void start(const MpiRanks& leaders, const HierarchicalPlan& plan, std::int64_t k);
  /// Makes progress; true once the result is there.
  [[nodiscard]] bool move(const MpiRanks& leaders, const HierarchicalPlan& plan);

 private:
  class Round;
  void spread_shares(Round& round, const HierarchicalPlan& plan, std::int64_t share) const;

  std::int64_t k_ = 0;
  bool another_round_ = false;
  std::vector<MPI_Request> requests_;
};

}  // namespace lockstep
