// Backward passes that go through several DistributedDataParallels of one group.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "gradient_numbers.hpp"
#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::add;
using test::alone;
using test::Batch;
using test::expect_near;
using test::gradients_in;
using test::make_batch;
using test::mean_loss;
using test::Mlp;
using test::Numbers;

class SeveralDdps : public testing::TestWithParam<int> {};

// The pass goes through them in another order on every other rank.
TEST_P(SeveralDdps, InOnePassAreSummedInOneOrder) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (int step = 0; step < 2; ++step) {
      const auto first = std::make_shared<Mlp>(1.0), second = std::make_shared<Mlp>(1.0);
      DistributedDataParallel one(first, group, {.buckets = {1, 1}}),
          two(second, group, {.buckets = {1, 1}});
      const Batch batch = make_batch(2, group->rank());
      const bool swapped = (group->rank() + step) % 2 == 0;
      const Variable a = mean_loss(swapped ? two : one, batch),
                     b = mean_loss(swapped ? one : two, batch);
      (a + b).backward();
      Numbers mean;
      for (int r = 0; r < group->size(); ++r) {
        add(mean, alone(make_batch(2, r)), 1.0 / group->size());
      }
      expect_near(gradients_in(*first), mean, "of the first");
      expect_near(gradients_in(*second), mean, "of the second");
    }
  });
}

TEST_P(SeveralDdps, InOnePassOfAWeightAreAllWeighed) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto first = std::make_shared<Mlp>(1.0), second = std::make_shared<Mlp>(1.0);
    DistributedDataParallel one(first, group), two(second, group);
    const Batch batch = make_batch(2, group->rank());
    one.backward(mean_loss(one, batch) + mean_loss(two, batch), 0.25 + group->rank());
    Numbers sum;
    for (int r = 0; r < group->size(); ++r) add(sum, alone(make_batch(2, r)), 0.25 + r);
    expect_near(gradients_in(*first), sum, "of the one that was asked");
    expect_near(gradients_in(*second), sum, "of the other");
  });
}

// Both have buckets of the same sizes: sums launched in another order would be mixed up.
TEST_P(SeveralDdps, KeepTheirOrderWhereARanksLossLeavesOneOut) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const int ranks = group->size();
    for (int left_out = 0; left_out < 2; ++left_out) {
      const std::shared_ptr<Mlp> models[] = {std::make_shared<Mlp>(1.0),
                                             std::make_shared<Mlp>(3.0)};
      DistributedDataParallel first(models[0], group, {.buckets = {1, 1}}),
          second(models[1], group, {.buckets = {1, 1}});
      DistributedDataParallel* const ddps[] = {&first, &second};
      for (int step = 0; step < 2 * ranks; ++step) {
        const int by = step % ranks;  // this rank's does
        const auto batch_of = [&](int r) { return make_batch(2, 0.3 * step + r); };
        const auto weight_of = [](int r) { return 0.25 + r; };
        Variable losses[2];
        for (int d = 0; d < 2; ++d) {
          ddps[d]->zero_grad();
          // Whether its forward() has run makes no difference.
          if (d == left_out && group->rank() == by && step < ranks) continue;
          losses[d] = mean_loss(*ddps[d], batch_of(group->rank()));
        }
        const bool leaves_out = group->rank() == by;
        const Variable loss = leaves_out ? losses[1 - left_out] : losses[0] + losses[1];
        ddps[left_out]->backward(loss, weight_of(group->rank()));
        for (int d = 0; d < 2; ++d) {
          Numbers expected(models[d]->parameters().size());
          for (int r = 0; r < ranks; ++r) {
            if (d == left_out && r == by) continue;
            add(expected, alone(batch_of(r), d == 0 ? 1.0 : 3.0), weight_of(r));
          }
          expect_near(gradients_in(*models[d]), expected,
                      std::string("of ") + (d == 0 ? "the first" : "the second") + " in step " +
                          std::to_string(step) + ", left out: " + std::to_string(left_out));
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SeveralDdps, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
