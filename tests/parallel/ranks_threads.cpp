#include <lockstep/comm/threads_group.hpp>
#include <support/rank_counts.hpp>

#include <lockstep/nn/device_guard.hpp>

#include "asked_for_device.hpp"
#include "ranks.hpp"

namespace lockstep::test {

std::vector<int> rank_counts() { return counts_of_threads(4); }

void on_ranks(int ranks, const RankBody& body) {
  run_ranks_as_threads(ranks,
                       [&](ProcessGroup& group) {
                         const nn::DeviceGuard modules(asked_for_device());
                         // Not an owner: the group belongs to run_ranks_as_threads.
                         body(std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group));
                       },
                       {.timeout = std::chrono::seconds(60)});
}

}  // namespace lockstep::test
