#include <comm/nccl/ranks.hpp>

#include <gtest/gtest.h>
#include <comm/deadlines.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl/group.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep::test {

std::shared_ptr<ProcessGroup> nccl_group(const std::shared_ptr<StandIn>& nccl,
                                         ProcessGroup& control, const GroupOptions& options) {
  return make_nccl_group(nccl, std::shared_ptr<ProcessGroup>(&control, [](ProcessGroup*) {}),
                         device_of(control.rank()), options);
}

void on_ranks(int ranks, const OnRank& claim, const GroupOptions& options,
              std::shared_ptr<StandIn> nccl) {
  run_ranks_as_threads(
      ranks,
      [&](ProcessGroup& control) {
        const auto group = nccl_group(nccl, control, options);
        try {
          meet(*group);  // all have it, before one of them ends
        } catch (const CommError&) {
          // They had, and one has failed the group by now, as its claim wants.
        }
        claim(*group, *nccl);
      },
      options);
  nccl->end();
  for (const auto& violation : nccl->violations()) ADD_FAILURE() << violation;
}

void on_ranks_soon(int ranks, const OnRank& claim, Contract contract) {
  const auto attempt = [&](std::chrono::milliseconds deadline) {
    on_ranks(ranks, claim, {.timeout = deadline, .contract = contract});
    return std::string();
  };
  hold_at_deadlines(soon.timeout, attempt, here);
}

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

void meet(ProcessGroup& group) { group.all_reduce(Tensor::zeros({1}), ReduceOp::sum).wait(); }

void stop_device(ProcessGroup& group, StandIn& nccl) {
  meet(group);
  nccl.stopped_device = 1;
  meet(group);
}

}  // namespace lockstep::test
