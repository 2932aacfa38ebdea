// A checkpoint of a sharded model holds whole tensors: any other number of ranks, any other way to
// shard it, and the undivided model read them.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>

#include "../ranks.hpp"
#include "../sharded_step.hpp"
#include "../stack_model.hpp"

namespace lockstep {
namespace {

using test::make_batch;
using test::Stack;
using test::step;

class FullyShardCheckpoint : public testing::TestWithParam<int> {};

std::vector<double> values_of(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor, placement] : a) {
    EXPECT_EQ(tensor.shape(), b.at(name).shape()) << name;
    EXPECT_EQ(values_of(tensor), values_of(b.at(name))) << name;
  }
}

std::filesystem::path file_for(int ranks) {
  return test::file_of_all_ranks("fully_shard_" + std::to_string(ranks));
}

TEST_P(FullyShardCheckpoint, IsReadByAnyOtherShardingAndByTheUndividedModel) {
  const auto path = file_for(GetParam());
  test::on_ranks(GetParam(), [&](const auto& group) {
    // All parameters in one unit, cut without regard to rows, and units of their own.
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
    optimizer.take_placements(fsdp.state_dict());
    for (int s = 0; s < 3; ++s) step(fsdp, optimizer, make_batch(13, 0.1 * s));
    CheckpointContents contents;
    contents.model = fsdp.state_dict();
    contents.optimizer = optimizer.state_dict();
    CheckpointWriter().save(*group, path, contents);

    // The undivided model.
    Stack alone;
    optim::AdamW of_whole(alone.named_parameters(), {.lr = 0.01});
    const CheckpointContents whole = load_checkpoint(path);
    alone.load_state_dict(whole.model);
    of_whole.load_state_dict(whole.optimizer);
    {
      const auto gathered = fsdp.gathered();
      expect_same(alone.state_dict(), fsdp.module().state_dict());
    }

    // Half of the ranks, which read pieces; others units, so the runs begin elsewhere.
    const int half = (group->size() + 1) / 2;
    const auto few = group->split(group->rank() < half ? 0 : 1, group->rank());
    FullyShardedDataParallel other(std::make_shared<Stack>(0.9), few, {.units = {"h.1"}});
    optim::AdamW of_other(other.named_parameters(), {.lr = 0.01});
    of_other.take_placements(other.state_dict());
    const CheckpointContents pieces =
        load_checkpoint(*few, path, other.state_dict(), of_other.state_dict());
    other.load_state_dict(pieces.model);
    of_other.load_state_dict(pieces.optimizer);
    const auto expect_whole = [&](FullyShardedDataParallel& sharded) {
      const auto gathered = sharded.gathered();
      expect_same(alone.state_dict(), sharded.module().state_dict());
    };
    expect_whole(other);

    // Whole tensors into pieces.
    FullyShardedDataParallel third(std::make_shared<Stack>(0.9), few);
    third.load_state_dict(whole.model);
    expect_whole(third);

    // The same ranks go on with the same bits.
    FullyShardedDataParallel again(std::make_shared<Stack>(0.9), group);
    optim::AdamW resumed(again.named_parameters(), {.lr = 0.01});
    resumed.take_placements(again.state_dict());
    const CheckpointContents own =
        load_checkpoint_in_place(*group, path, again.state_dict(), resumed.state_dict());
    again.load_state_dict(own.model);  // on the host the same tensors
    resumed.load_state_dict(own.optimizer);
    for (int s = 3; s < 5; ++s) {
      step(fsdp, optimizer, make_batch(13, 0.1 * s));
      step(again, resumed, make_batch(13, 0.1 * s));
    }
    expect_same(again.state_dict(), fsdp.state_dict());
    expect_same(resumed.state_dict(), optimizer.state_dict());
    few->close();
    group->barrier();
    if (group->rank() == 0) std::filesystem::remove(path);
  });
}

TEST_P(FullyShardCheckpoint, OptimizersOfWholeParametersAreRefused) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    optim::LARS lars(fsdp.named_parameters());
    try {
      lars.take_placements(fsdp.state_dict());
      ADD_FAILURE() << "not refused";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("looks at whole parameters"), std::string::npos);
    }
  });
}

TEST_P(FullyShardCheckpoint, AStateThatDoesNotFitIsRefused) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    StateDict state;
    state.insert("into", Tensor::zeros({5, 6}, DType::f64));
    EXPECT_THROW(fsdp.load_state_dict(state), Error);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FullyShardCheckpoint, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
