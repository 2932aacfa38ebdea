#include <lockstep/parallel/sharded/sharded_memory.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/tensor/storage.hpp>

#include "../peak_memory.hpp"
#include "../ranks.hpp"

namespace lockstep {
namespace {

using test::PeakMemory;

class ShardedMemoryOfRanks : public testing::TestWithParam<int> {};

/// 1.5 MiB of parameters, and activations of a few KiB. Shares of 1 to 4 ranks are sizes that the
/// allocator does not round.
struct Block : nn::Module {
  explicit Block(PeakMemory& peak) : peak(peak) {}
  Variable forward(const Variable& x) override {
    peak.look();
    return x + linear(linear(x, W, {}), V, {});
  }
  Variable W = register_parameter("W", Tensor::full({512, 384}, 0.001));
  Variable V = register_parameter("V", Tensor::full({384, 512}, 0.001));
  PeakMemory& peak;
};

TEST_P(ShardedMemoryOfRanks, IsThatOfTheFormulaWithinATenth) {
  constexpr int blocks = 8;
  for (const bool reshards : {true, false}) {
    const FullyShardOptions options{.reshard_after_forward = reshards};
    PeakMemory peak;
    const auto make = [&] {
      auto model = std::make_shared<nn::Sequential>();
      for (int i = 0; i < blocks; ++i) model->push_back(std::make_shared<Block>(peak));
      return model;
    };
    const ShardedMemory expected = sharded_memory(*make(), GetParam(), options, 2);
    const auto before = static_cast<double>(memory_stats().in_use);
    test::on_ranks(GetParam(), [&](const auto& group) {
      const auto model = make();
      FullyShardedDataParallel fsdp(model, group, options);
      optim::AdamW optimizer(fsdp.named_parameters());
      std::vector<GradHook> hooks;
      for (const Variable& parameter : model->parameters())
        hooks.push_back(parameter.add_grad_hook([&] { peak.look(); }));
      for (int s = 0; s < 3; ++s) {
        group->barrier();
        fsdp.zero_grad();
        fsdp.backward(sum(fsdp.forward(Variable(Tensor::full({1, 384}, 0.1)))), 1.0);
        optimizer.step();
      }
    });
    const double measured = (peak.bytes() - before) / GetParam();
    EXPECT_NEAR(measured / static_cast<double>(expected.total()), 1.0, 0.1)
        << measured << " bytes a rank, reshards = " << reshards;
  }
}

TEST(ShardedMemory, OfAModelOver4096RanksIsKnownWithoutThem) {
  PeakMemory peak;
  nn::Sequential model;
  for (int i = 0; i < 4; ++i) model.push_back(std::make_shared<Block>(peak));
  const ShardedMemory memory = sharded_memory(model, 4096, {}, 2);
  constexpr std::size_t block = 2 * 512 * 384 * sizeof(float);
  EXPECT_EQ(memory.values, 4 * block / 4096);
  EXPECT_EQ(memory.gradients, memory.values);
  EXPECT_EQ(memory.optimizer, 2 * memory.values);
  EXPECT_EQ(memory.gathered, 2 * block);
  EXPECT_EQ(memory.whole_gradients, 2 * block);
  const ShardedMemory narrow =
      sharded_memory(model, 4096, {.reshard_after_forward = false, .param_dtype = DType::bf16}, 2);
  EXPECT_EQ(narrow.values, memory.values * 3 / 2) << "f32, and bf16 to gather";
  EXPECT_EQ(narrow.gathered, 4 * block / 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedMemoryOfRanks, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
