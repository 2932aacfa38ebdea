#include <comm/nccl/ranks.hpp>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl/group.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep::test {

std::shared_ptr<ProcessGroup> nccl_group(const std::shared_ptr<StandIn>& gpus,
                                         ProcessGroup& control, const GroupOptions& options) {
  return make_nccl_group(gpus, std::shared_ptr<ProcessGroup>(&control, [](ProcessGroup*) {}),
                         {DeviceType::cuda, control.rank()}, options);
}

void on_ranks(int ranks, const OnRank& claim, const GroupOptions& options,
              std::shared_ptr<StandIn> gpus) {
  run_ranks_as_threads(
      ranks,
      [&](ProcessGroup& control) {
        const auto group = nccl_group(gpus, control, options);
        try {
          meet(*group);  // all have it, before one of them ends
        } catch (const CommError&) {
          // They had, and one has failed the group by now, as its claim wants.
        }
        claim(*group, *gpus);
      },
      options);
  gpus->end();
  for (const auto& violation : gpus->violations()) ADD_FAILURE() << violation;
}

void meet(ProcessGroup& group) { group.all_reduce(Tensor::zeros({1}), ReduceOp::sum).wait(); }

}  // namespace lockstep::test
