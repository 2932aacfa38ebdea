#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/parallel/context/context_parallel.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/join.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/parallel/post_local_sgd.hpp>
#include <lockstep/parallel/replica_check.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>

#include "asked_for_device.hpp"
#include "ranks.hpp"

namespace lockstep {
namespace {

class DdpAllocation : public testing::TestWithParam<int> {};

/// The largest number of allocations of any rank in 20 steady steps.
template <class Step>
double allocations_of(ProcessGroup& group, const Step& step) {
  // Pools grow until they fit the worst interleaving; ranks as threads share them. A step that
  // allocates would do so in every window, so one window without is the proof.
  const int windows = std::string(group.backend()) == "threads" ? 50 : 10;
  double allocations = 1.0;
  for (int s = 0; s < 20; ++s) step();
  for (int window = 0; window < windows && allocations > 0.0; ++window) {
    group.barrier();
    const auto before = test::allocation_count() + memory_stats().system_allocations;
    for (int s = 0; s < 20; ++s) step();
    const auto after = test::allocation_count() + memory_stats().system_allocations;
    group.barrier();
    allocations = all_reduce_scalar(group, static_cast<double>(after - before), ReduceOp::max);
  }
  return allocations;
}

/// Steps 21 to 40 of a small network.
void expect_no_allocation(int ranks, const DdpOptions& options) {
  test::on_ranks(ranks, [&](const auto& group) {
    const auto model = nn::mlp({1, 6, 6}, 4, {16, 8});
    DistributedDataParallel ddp(model, group, options);
    ASSERT_GT(ddp.stats().buckets, 2U);
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01, .momentum = 0.5});
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    const double weight = 1.0 / group->size();
    ReplicaCheck replicas(group, model->state_dict());
    const double allocations = allocations_of(*group, [&] {
      ddp.zero_grad();
      ddp.backward(nll_loss(ddp.forward(x), target), weight);
      sgd.step();
      ddp.zero_grad();
      {
        const auto local = ddp.no_sync();
        nll_loss(ddp.forward(x), target).backward();
      }
      nll_loss(ddp.forward(x), target).backward();
      sgd.step();
      nll_loss(ddp.forward(x), target).backward();  // adds to the existing gradients
      ddp.backward(nll_loss(ddp.forward(x), target), weight);
      EXPECT_FALSE(replicas.compare());
    });
    EXPECT_EQ(allocations, 0.0) << "the most on any rank, in 20 steps of "
                                << ddp.comm_hook().name();
    EXPECT_EQ(ddp.stats().traffic.sent < ddp.stats().traffic.replaced,
              options.comm_hook != CommHookKind::all_reduce);
  });
}

TEST_P(DdpAllocation, StepsWithinJoinAndOfLocalSgdAllocateNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = nn::mlp({1, 6, 6}, 4, {16, 8});
    DistributedDataParallel ddp(model, group, {.buckets = {256, 512}},
                                std::make_shared<PostLocalSgdHook>(nullptr, 10));
    PeriodicModelAverager averager(ddp.flat_values(), group, 4, 10);
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01, .momentum = 0.5});
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    Join join({ddp});
    const double allocations = allocations_of(*group, [&] {
      const double weight = join.step(5.0);
      ddp.backward(nll_loss(ddp.forward(x), target), weight);
      sgd.step();
      averager.average_parameters();
    });
    join.finish();
    EXPECT_EQ(allocations, 0.0);
  });
}

TEST_P(DdpAllocation, SteadyStepsOfContextParallelismAllocateNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<nn::Gpt>(
        nn::GptOptions{.vocabulary = 8, .context = 32, .width = 8, .depth = 2, .heads = 2});
    context_parallel(*model, group, SequenceOrder::zigzag);
    DistributedDataParallel ddp(model, group);
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01});
    const Variable tokens(Tensor::zeros({2, 5}, DType::i64, test::asked_for_device()));
    const Tensor target = Tensor::zeros({2, 5}, DType::i64, test::asked_for_device());
    const auto run = [&](nn::Module& m) { return static_cast<nn::Gpt&>(m).loss(tokens, target); };
    const std::function<Variable(nn::Module&)> forward = run;
    const double allocations = allocations_of(*group, [&] {
      ddp.zero_grad();
      ddp.forward(forward).backward();
      sgd.step();
    });
    EXPECT_EQ(allocations, 0.0);
  });
}

TEST_P(DdpAllocation, SteadyStepsOfSyncBatchNormAllocateNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model =
        std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
            std::make_shared<nn::Conv2d>(1, 64, 3), std::make_shared<nn::BatchNorm2d>(64),
            std::make_shared<nn::ReLU>(), std::make_shared<nn::AdaptiveAvgPool2d>(1),
            std::make_shared<nn::Flatten>(), std::make_shared<nn::BatchNorm1d>(64),
            std::make_shared<nn::Linear>(64, 4), std::make_shared<nn::LogSoftmax>()});
    DistributedDataParallel ddp(model, group, {.buckets = {256, 512}, .sync_batch_norm = true});
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01, .momentum = 0.5});
    // The last of several ranks has no samples.
    const bool samples = group->rank() == 0 || group->rank() < group->size() - 1;
    const Variable x(samples
                         ? Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device())
                         : Tensor::empty({0, 1, 6, 6}, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    const double weight = samples ? 1.0 / std::max(group->size() - 1, 1) : 0.0;
    const double allocations = allocations_of(*group, [&] {
      ddp.zero_grad();
      const Variable output = ddp.forward(x);
      ddp.backward(samples ? nll_loss(output, target) : sum(output), weight);
      sgd.step();
    });
    EXPECT_EQ(allocations, 0.0);
  });
}

TEST_P(DdpAllocation, SteadyStepsAllocateNothing) {
  for (const CommHookKind hook :
       {CommHookKind::all_reduce, CommHookKind::bf16_compress, CommHookKind::power_sgd}) {
    expect_no_allocation(GetParam(), {.buckets = {256, 512},
                                      .comm_hook = hook,
                                      .power_sgd = {.start_step = 5, .min_compression_rate = 1}});
  }
}

TEST_P(DdpAllocation, StepsOf16BitsAllocateNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = nn::mlp({1, 6, 6}, 4, {16, 8});
    model->to(DType::bf16);
    DistributedDataParallel ddp(model, group, {.buckets = {256, 512}});
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01, .momentum = 0.5});
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    const double allocations = allocations_of(*group, [&] {
      ddp.zero_grad();
      nll_loss(ddp.forward(x), target).backward();
      ddp.backward(nll_loss(ddp.forward(x), target), 0.5);
      sgd.step();
    });
    EXPECT_EQ(allocations, 0.0);
  });
}

TEST_P(DdpAllocation, PowerSgdOfRandomStartsAllocatesNothing) {
  expect_no_allocation(GetParam(), {.buckets = {256, 512},
                                    .comm_hook = CommHookKind::power_sgd,
                                    .power_sgd = {.matrix_approximation_rank = 2,
                                                  .start_step = 0,
                                                  .min_compression_rate = 1,
                                                  .use_error_feedback = false,
                                                  .warm_start = false}});
}

TEST_P(DdpAllocation, StepsOfSumsOverShardsAllocateNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = nn::mlp({1, 6, 6}, 4, {16, 8});
    DistributedDataParallel ddp(model, group, {.buckets = {256, 512}, .shards = 12});
    optim::SGD sgd(model->named_parameters(), {.lr = 0.01, .momentum = 0.5});
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    const double allocations = allocations_of(*group, [&] {
      for (std::int64_t shard = 0; shard < 12 / group->size(); ++shard) {
        ddp.backward(nll_loss(ddp.forward(x), target), 1.0 / 12);
      }
      ddp.zero_grad();
      for (std::int64_t shard = 0; shard < 12 / group->size(); ++shard) {
        nll_loss(ddp.forward(x), target).backward();
      }
      sgd.step();
      ddp.zero_grad();
    });
    EXPECT_EQ(allocations, 0.0);
  });
}

TEST_P(DdpAllocation, DifferentiableCollectivesAllocateNothing) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Variable x(Tensor::full({group->size(), 8}, 0.5, DType::f32, test::asked_for_device()),
                     true);
    EXPECT_EQ(allocations_of(*group,
                             [&] {
                               PendingVariable sums = start_all_reduce(x, group);
                               const Variable mine = reduce_scatter(x, group);
                               const Variable all = all_gather(mine, group);
                               (sum(sums.wait() + all) + sum(shift(x, 1, group))).backward();
                             }),
              0.0);
  });
}

TEST_P(DdpAllocation, SteadyStepsOfShardedTrainingAllocateNothing) {
  const auto expect_none = [](ProcessGroup& all, const std::shared_ptr<ProcessGroup>& group,
                              const FullyShardOptions& options) {
    FullyShardedDataParallel fsdp(nn::mlp({1, 6, 6}, 4, {16, 8}), group, options);
    optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.01, .momentum = 0.5});
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    EXPECT_EQ(allocations_of(all,
                             [&] {
                               fsdp.zero_grad();
                               fsdp.backward(nll_loss(fsdp.forward(x), target), 1.0 / all.size());
                               sgd.step();
                             }),
              0.0);
  };
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool reshards : {true, false})
      expect_none(*group, group, {.reshard_after_forward = reshards});
    if (group->size() % 2 != 0) return;
    const auto replicas = group->split(group->rank() % 2, group->rank());
    const auto pair = group->new_subgroups(2);
    expect_none(*group, pair, {.replicate = replicas});
    pair->close();
    replicas->close();
  });
}

TEST_P(DdpAllocation, SteadyStepsOfASharedOutOptimizerAllocateNothing) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    DistributedDataParallel ddp(nn::mlp({1, 6, 6}, 4, {16, 8}), group);
    ZeroRedundancyOptimizer zero(ddp, [](std::vector<nn::NamedParameter> parameters) {
      return std::make_unique<optim::SGD>(std::move(parameters),
                                          optim::SgdOptions{.lr = 0.01, .momentum = 0.5});
    });
    const Variable x(Tensor::full({5, 1, 6, 6}, 0.25, DType::f32, test::asked_for_device()));
    const Tensor target = Tensor::zeros({5}, DType::i64, test::asked_for_device());
    EXPECT_EQ(allocations_of(*group,
                             [&] {
                               ddp.zero_grad();
                               ddp.backward(nll_loss(ddp.forward(x), target), 1.0 / group->size());
                               zero.step();
                             }),
              0.0);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpAllocation, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
