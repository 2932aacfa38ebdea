#include <lockstep/parallel/fully_shard.hpp>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/sgd.hpp>

#include "ranks.hpp"
#include "stack_model.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::loss_of_share;
using test::make_batch;
using test::max_difference;
using test::Stack;
using test::weight_of;

class FullyShard : public testing::TestWithParam<int> {};

/// ZeRO-3, ZeRO-2, and units by name.
std::vector<FullyShardOptions> ways_to_shard() {
  return {{}, {.reshard_after_forward = false}, {.units = {"h.1"}}, {.units = {"h.0", "h.?"}}};
}

Batch share_of(const Batch& batch, const ProcessGroup& group) {
  return batch.share(group.rank(), group.size());
}

/// One step on this rank's share.
void step(FullyShardedDataParallel& fsdp, optim::Optimizer& optimizer, const Batch& batch) {
  const Batch share = share_of(batch, fsdp.group());
  fsdp.zero_grad();
  fsdp.backward(loss_of_share(fsdp, share), weight_of(share, batch));
  optimizer.step();
}

void step(nn::Module& model, optim::Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  loss_of_share(model, batch).backward();
  optimizer.step();
}

void expect_equal(FullyShardedDataParallel& fsdp, const nn::Module& reference, double tolerance) {
  const auto gathered = fsdp.gathered();
  const auto actual = fsdp.module().named_parameters(), expected = reference.named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(max_difference(actual[i].variable.data(), expected[i].variable.data()), tolerance)
        << actual[i].name;
  }
}

TEST_P(FullyShard, StepsEqualThoseOfTheUndividedModel) {
  for (const FullyShardOptions& options : ways_to_shard()) {
    for (const std::int64_t rows : {13, 3}) {  // of 3 rows some ranks have none
      Stack alone;
      optim::AdamW reference(alone.trained_parameters(), {.lr = 0.01});
      for (int s = 0; s < 4; ++s) step(alone, reference, make_batch(rows, 0.1 * s));
      test::on_ranks(GetParam(), [&](const auto& group) {
        const auto model = std::make_shared<Stack>();
        FullyShardedDataParallel fsdp(model, group, options);
        optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
        for (int s = 0; s < 4; ++s) step(fsdp, optimizer, make_batch(rows, 0.1 * s));
        expect_equal(fsdp, alone, 1e-10);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FullyShard, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
