// An nccl group over threads, with a stand-in for NCCL: models are on the host, where the group's
// control group serves them.
#include <comm/nccl/ranks.hpp>

#include "ranks.hpp"

namespace lockstep::test {

std::vector<int> rank_counts() { return {1, 2, 3, 4}; }

void on_ranks(int ranks, const RankBody& body) {
  on_ranks(ranks, [&](ProcessGroup& group, StandIn& /*gpus*/) {
    body(std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group));
  });
}

}  // namespace lockstep::test
