// A rank that leaves a loop within Join by an exception.
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/join.hpp>

#include "small_models.hpp"

namespace lockstep {
namespace {

constexpr double deadline_s = 4.0;  // includes making the group
const GroupOptions impatient{.timeout = std::chrono::seconds(4)};

/// Rank 0 has no inputs, rank 1 fails in its second iteration, the others have plenty.
void fail_on_rank_1(const std::shared_ptr<ProcessGroup>& group) {
  const auto model = std::make_shared<test::Mlp>(1.0);
  DistributedDataParallel ddp(model, group);
  Join join({ddp});
  const auto epoch = [&] {
    for (int k = 0; group->rank() > 0 && k < 5; ++k) {
      if (group->rank() == 1 && k == 1) throw std::runtime_error("a bad sample");
      const double weight = join.step(2.0);
      ddp.backward(test::mean_loss(ddp, test::make_batch(2, 0.5)), weight);
    }
    join.finish();
  };
  const auto start = Clock::now();
  if (group->rank() == 1) {
    EXPECT_THROW(epoch(), std::runtime_error);
  } else {
    EXPECT_THROW(epoch(), CommError);
    EXPECT_GE(seconds_since(start), deadline_s);
  }
  EXPECT_LT(seconds_since(start), 10 * deadline_s) << "on however busy a machine";
}

TEST(Join, RefusesAModelWhoseForwardIsCollective) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto model = std::make_shared<nn::Sequential>(
      std::initializer_list<std::shared_ptr<nn::Module>>{std::make_shared<nn::BatchNorm1d>(3)});
  DistributedDataParallel ddp(model, group, {.sync_batch_norm = true});
  EXPECT_THROW(Join({ddp}), Error);
  ddp.module().eval();
  EXPECT_NO_THROW(Join({ddp}));
  group->close();
}

TEST(JoinFailure, EndsTheOthersAtTheirDeadlineOverMpi) {
  MPI_Barrier(MPI_COMM_WORLD);
  fail_on_rank_1(make_mpi_group(MPI_COMM_WORLD, impatient));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(JoinFailure, EndsTheOthersAtTheirDeadlineOverThreads) {
  run_ranks_as_threads(
      3,
      [](ProcessGroup& group) {
        fail_on_rank_1(std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group));
      },
      impatient);
}

}  // namespace
}  // namespace lockstep
