// A loss that contains gradients, under DistributedDataParallel: on any number of ranks its
// gradient is that of the whole batch, and each parameter's hooks are called once.
#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::max_difference;

struct Potential : nn::Module {
  Variable forward(const Variable& x) override {
    return linear(lockstep::tanh(linear(x, W1, b1)), W2, b2);
  }
  Variable W1 = register_parameter("W1", test::wave({5, 6}, 0.1));
  Variable b1 = register_parameter("b1", test::wave({5}, 0.2));
  Variable W2 = register_parameter("W2", test::wave({1, 5}, 0.3));
  Variable b2 = register_parameter("b2", test::wave({1}, 0.4));
};

/// The mean over the rows of u^2 + |grad u|^2 + (sum of the second derivatives)^2.
template <class Model>
Variable loss_of(Model& model, const Batch& batch) {
  if (batch.rows() == 0) return {};
  const Variable x(batch.x.clone(), true);
  const Variable u = model.forward(x);
  const Variable slopes = grad(sum(u), x, {.create_graph = true});
  const Variable second = grad(sum(slopes), x, {.create_graph = true});
  return mean(sum(pow(u, 2.0), {1}) + sum(pow(slopes, 2.0), {1}) + pow(sum(second, {1}), 2.0));
}

class SecondDerivatives : public testing::TestWithParam<int> {};

TEST_P(SecondDerivatives, InALossGiveTheWholeBatchsGradientAndCallEachHookOnce) {
  for (const std::int64_t rows : {1, 7, 12}) {
    const Batch batch = make_batch(rows, 0.5);
    Potential alone;
    loss_of(alone, batch).backward();
    const auto expected = alone.parameters();

    test::on_ranks(GetParam(), [&](const auto& group) {
      for (const DdpOptions& options :
           std::vector<DdpOptions>{{}, {.buckets = {1, 1}}, {.buckets = {100, 200}}}) {
        const auto model = std::make_shared<Potential>();
        DistributedDataParallel ddp(model, group, options);
        const auto parameters = model->parameters();
        const Batch share = batch.share(group->rank(), group->size());
        for (int step = 0; step < 3; ++step) {
          std::array<int, 4> calls{};
          std::vector<GradHook> hooks;
          for (std::size_t i = 0; i < parameters.size(); ++i) {
            hooks.push_back(parameters[i].add_grad_hook([&calls, i] { ++calls[i]; }));
          }
          const Variable loss = loss_of(ddp, share);
          EXPECT_EQ(calls, (std::array<int, 4>{})) << "grad() touches no leaf";
          ddp.zero_grad();
          ddp.backward(loss, static_cast<double>(share.rows()) / static_cast<double>(rows));
          EXPECT_TRUE(share.rows() == 0 || calls == (std::array<int, 4>{1, 1, 1, 1}));
          for (std::size_t i = 0; i < parameters.size(); ++i) {
            EXPECT_LE(max_difference(parameters[i].grad(), expected[i].grad()), 1e-12)
                << "parameter " << i << ", rank " << group->rank() << " of " << group->size();
          }
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SecondDerivatives, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
