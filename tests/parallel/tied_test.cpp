// Tied parameters: trained once, with the sum of the gradients of all their uses, on any number of
// ranks.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::max_difference;
using test::mean_loss;

struct Half : nn::Module {
  Variable forward(const Variable& x) override { return test::tanh(linear(x, W, {})); }
  Variable W = register_parameter("W", test::wave({6, 6}, 0.3));
};

/// A head that uses another module's parameter.
struct Head : nn::Module {
  explicit Head(const Variable& parameter) : shared(register_parameter("shared", parameter)) {}
  Variable forward(const Variable& x) override { return linear(linear(x, shared, {}), out, {}); }
  Variable shared;
  Variable out = register_parameter("out", test::wave({4, 6}, 0.8));
};

/// One module under two names and, in `head`, its parameter once more.
struct Tied : nn::Module {
  std::shared_ptr<Half> first = register_module("first", std::make_shared<Half>());
  std::shared_ptr<Half> second = register_module("second", first);
  std::shared_ptr<Head> head = register_module("head", std::make_shared<Head>(first->W));
  Variable forward(const Variable& x) override {
    return head->forward(second->forward(first->forward(x)));
  }
};

std::vector<Tensor> trained(DistributedDataParallel& ddp) {
  optim::SGD sgd(ddp.module().named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const Batch batch = make_batch(11, 0.5);
  for (int step = 0; step < 4; ++step) {
    const Batch share = batch.share(ddp.group().rank(), ddp.group().size());
    ddp.zero_grad();
    ddp.backward(mean_loss(ddp, share),
                 static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
    sgd.step();
  }
  std::vector<Tensor> parameters;
  for (const Variable& parameter : ddp.module().parameters()) {
    parameters.push_back(parameter.data().clone());
  }
  return parameters;
}

/// The same model written with one explicit parameter for all three uses.
std::vector<Tensor> by_hand() {
  const Variable w(test::wave({6, 6}, 0.3), true), out(test::wave({4, 6}, 0.8), true);
  optim::SGD sgd({{"w", w}, {"out", out}}, {.lr = 0.1, .momentum = 0.9});
  const Batch batch = make_batch(11, 0.5);
  for (int step = 0; step < 4; ++step) {
    sgd.zero_grad();
    const Variable x(batch.x), once = test::tanh(linear(x, w, {}));
    const Variable y = linear(linear(test::tanh(linear(once, w, {})), w, {}), out, {});
    cross_entropy(y, batch.target).backward();
    sgd.step();
  }
  return {w.data(), out.data()};
}

class TiedOnRanks : public testing::TestWithParam<int> {};

TEST_P(TiedOnRanks, TrainAsOneParameter) {
  const auto expected = by_hand();
  for (const DdpOptions& options : {DdpOptions{}, DdpOptions{.buckets = {1, 1}}}) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      const auto model = std::make_shared<Tied>();
      DistributedDataParallel ddp(model, group, options);
      EXPECT_EQ(ddp.stats().buckets, options.buckets.bucket_bytes == 1 ? 2U : 1U);
      EXPECT_EQ(model->parameter_count(), 36 + 24);
      const auto actual = trained(ddp);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_LE(max_difference(actual[i], expected[i]), 1e-13) << i;
        EXPECT_TRUE(test::same_on_all_ranks(
            *group, std::string(static_cast<const char*>(actual[i].to(Device{}).data()),
                                actual[i].bytes())));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TiedOnRanks, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
