// A rank with another number of backward passes than its peers: an error that names it, at the
// group's deadline, and no hang.
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "small_models.hpp"

namespace lockstep {
namespace {

const GroupOptions soon{.timeout = std::chrono::seconds(2)};

/// The last rank makes one pass less than the others before all meet in a barrier.
void one_pass_less(const std::shared_ptr<ProcessGroup>& group) {
  const auto model = std::make_shared<test::Mlp>(1.0);
  DistributedDataParallel ddp(model, group);
  const int last = group->size() - 1;
  const auto start = Clock::now();
  const std::string verdict = test::message_of<CommError>([&] {
    for (int step = 0; step < (group->rank() == last ? 2 : 3); ++step) {
      ddp.zero_grad();
      test::mean_loss(ddp, test::make_batch(2, step)).backward();
    }
    group->barrier();
  });
  EXPECT_NE(verdict.find("rank " + std::to_string(last)), std::string::npos) << verdict;
  EXPECT_LT(seconds_since(start), 60.0) << "on however busy a machine";
}

TEST(UnevenPasses, EndInAVerdictThatNamesTheRankOverMpi) {
  MPI_Barrier(MPI_COMM_WORLD);
  one_pass_less(make_mpi_group(MPI_COMM_WORLD, soon));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(UnevenPasses, EndInAVerdictThatNamesTheRankOverThreads) {
  for (const int ranks : {2, 3}) {
    run_ranks_as_threads(
        ranks,
        [](ProcessGroup& group) {
          one_pass_less(std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group));
        },
        soon);
  }
}

}  // namespace
}  // namespace lockstep
