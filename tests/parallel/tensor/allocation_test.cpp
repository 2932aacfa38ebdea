// Steady steps of tensor-parallel models allocate nothing.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>

#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/parallel/tensor/plans.hpp>
#include <lockstep/tensor/storage.hpp>

#include "../asked_for_device.hpp"
#include "../ranks.hpp"

namespace lockstep {
namespace {

class TensorParallelAllocation : public testing::TestWithParam<int> {};

TEST_P(TensorParallelAllocation, StepsOfAGptAllocateNothing) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool sequence : {false, true}) {
      nn::Gpt model(
          {.vocabulary = 13, .context = 12, .width = 24, .depth = 2, .heads = 12, .dropout = 0.1});
      parallelize_gpt(model, group, {.sequence = sequence});
      optim::AdamW optimizer(model.named_parameters());
      const TensorParallelGradNorm norm(model, group);
      const Tensor tokens = Tensor::zeros({3, 12}, DType::i64, test::asked_for_device());
      const auto step = [&] {
        optimizer.zero_grad();
        model.loss(Variable(tokens), tokens).backward();
        static_cast<void>(norm.clip(0.5));
        optimizer.step();
      };
      // As in ddp_allocation_test.cpp: pools grow until they fit the worst interleaving.
      const int windows = std::string(group->backend()) == "threads" ? 50 : 10;
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
      EXPECT_EQ(allocations, 0.0) << "in 20 steps, sequence " << sequence;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelAllocation, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
