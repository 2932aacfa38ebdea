#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/replica_check.hpp>

#include "ranks.hpp"

namespace lockstep {
namespace {

class DdpAllocation : public testing::TestWithParam<int> {};

TEST_P(DdpAllocation, SteadyStepsAllocateNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = nn::mlp({1, 6, 6}, 4, {16, 8});
    DistributedDataParallel ddp(model, group, {.buckets = {256, 512}});
    ASSERT_GT(ddp.bucket_count(), 2U);
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01, .momentum = 0.5});
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25));
    const Tensor target = Tensor::zeros({5}, DType::i64);
    const double weight = 1.0 / group->size();
    ReplicaCheck replicas(group, model->state_dict());
    const auto step = [&] {
      ddp.zero_grad();
      ddp.backward(nll_loss(ddp.forward(x), target), weight);
      sgd.step();
      EXPECT_FALSE(replicas.compare());
    };

    // Ranks that are threads share the pools, which grow until they hold what the worst
    // interleaving needs. A step that allocated would do so in every window; so one window without
    // is the proof.
    const int windows = std::string(group->backend()) == "threads" ? 50 : 1;
    double allocations = 1.0;
    for (int s = 0; s < 20; ++s) step();
    for (int window = 0; window < windows && allocations > 0.0; ++window) {
      group->barrier();
      const auto before = test::allocation_count() + memory_stats().system_allocations;
      for (int s = 0; s < 20; ++s) step();
      const auto after = test::allocation_count() + memory_stats().system_allocations;
      group->barrier();
      allocations = all_reduce_scalar(*group, static_cast<double>(after - before), ReduceOp::max);
    }
    EXPECT_EQ(allocations, 0.0) << "the most on any rank, in 20 steps";
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpAllocation, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
