#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "../ranks.hpp"
#include "../sharded_step.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::loss_of_share;
using test::make_batch;
using test::max_difference;
using test::Stack;

class ZeroRedundancy : public testing::TestWithParam<int> {};

std::unique_ptr<optim::Optimizer> adamw(std::vector<nn::NamedParameter> parameters) {
  return std::make_unique<optim::AdamW>(
      std::move(parameters), optim::AdamWOptions{.lr = 0.01},
      std::vector<optim::ParameterGroup>{{.pattern = "*.b", .weight_decay = 0.0}});
}

void backward(DistributedDataParallel& ddp, const Batch& batch) {
  const Batch share = test::share_of(batch, ddp.group());
  ddp.zero_grad();
  ddp.backward(loss_of_share(ddp, share), test::weight_of(share, batch));
}

TEST_P(ZeroRedundancy, UpdatesHaveTheBitsOfAnUndividedOptimizer) {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    for (const DdpOptions& options : {DdpOptions{}, {.buckets = {1, 1}}, {.buckets = {300, 500}}}) {
      test::on_ranks(GetParam(), [&](const auto& group) {
        const bool is_half = dtype == DType::bf16;
        const auto make = [&] {
          auto model = std::make_shared<Stack>(0.5, 3, is_half ? DType::f32 : dtype);
          if (is_half) model->to(dtype);
          return model;
        };
        const auto model = make(), reference = make();
        DistributedDataParallel ddp(model, group, options), whole(reference, group, options);
        ZeroRedundancyOptimizer zero(ddp, adamw);
        const auto undivided = adamw(reference->named_parameters());
        for (int s = 0; s < 4; ++s) {
          const Batch batch = make_batch(13, 0.1 * s, dtype);
          backward(ddp, batch);
          zero.step(0.5);
          backward(whole, batch);
          undivided->step(0.5);
        }
        const auto actual = model->named_parameters(), expected = reference->named_parameters();
        for (std::size_t i = 0; i < actual.size(); ++i) {
          EXPECT_EQ(max_difference(actual[i].variable.data(), expected[i].variable.data()), 0.0)
              << actual[i].name;
        }
        std::int64_t held = 0, all = 0;
        const auto elements = [](const StateDict& state, std::int64_t& count) {
          for (const auto& entry : state)
            count += entry.name.ends_with("/exp_avg") ? entry.tensor.numel() : 0;
        };
        elements(zero.state_dict(), held);
        elements(undivided->state_dict(), all);
        const auto padding = static_cast<std::int64_t>(64 * ddp.stats().buckets);
        EXPECT_LE(held, all / group->size() + padding) << "this rank's share of the state";
      });
    }
  }
}

TEST_P(ZeroRedundancy, ItsStateIsCutAlongTheParameters) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    DistributedDataParallel ddp(std::make_shared<Stack>(), group);
    ZeroRedundancyOptimizer zero(ddp, adamw);
    const StateDict state = zero.state_dict();
    const auto* slot = state.find("h.0.W/exp_avg");
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->placement.global, Shape({7, 7}));
    EXPECT_LE(slot->placement.offsets[0] + slot->tensor.numel(), 49);
    ZeroRedundancyOptimizer other(ddp, adamw);
    other.load_state_dict(state);
  });
}

// As of a pipeline's rank with two stages, one of whose parameters another rank's stage has too.
TEST_P(ZeroRedundancy, OfSeveralModelsHasTheBitsOfAnUndividedOptimizer) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    std::vector<std::shared_ptr<DistributedDataParallel>> models, references;
    std::vector<nn::NamedParameter> expected;
    ZeroRedundancyOptimizer::Parts parts;
    for (const std::string name : {"first.", "second."}) {
      models.push_back(std::make_shared<DistributedDataParallel>(std::make_shared<Stack>(), group));
      references.push_back(
          std::make_shared<DistributedDataParallel>(std::make_shared<Stack>(), group));
      parts.ddps.push_back(models.back().get());
      parts.state.insert_all(name, models.back()->state_dict());
      for (const auto& one : models.back()->module().named_parameters())
        parts.trained.push_back({name + one.name, one.variable});
      for (const auto& one : references.back()->module().named_parameters())
        expected.push_back({name + one.name, one.variable});
    }
    parts.whole = {parts.trained[2].variable};
    ZeroRedundancyOptimizer zero(parts, adamw);
    const auto undivided = adamw(expected);
    for (int s = 0; s < 3; ++s) {
      for (std::size_t m = 0; m < models.size(); ++m) {
        const Batch batch = make_batch(13, 0.1 * s + 0.3 * static_cast<double>(m));
        backward(*models[m], batch);
        backward(*references[m], batch);
      }
      zero.step();
      undivided->step();
    }
    const StateDict state = zero.state_dict();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, variable] = expected[i];
      EXPECT_EQ(zero.parameters()[i].name, name);
      EXPECT_EQ(max_difference(zero.parameters()[i].variable.data(), variable.data()), 0.0) << name;
      EXPECT_EQ(state.find(name + "/exp_avg")->placement.sharded, i != 2) << name;
    }
  });
}

TEST_P(ZeroRedundancy, AStepWithANonFiniteGradientIsSkippedByAll) {
  const Batch batch = make_batch(13, 0.3, DType::f32);
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Stack>(0.5, 3, DType::f32);
    DistributedDataParallel ddp(model, group);
    ZeroRedundancyOptimizer zero(ddp, adamw);
    optim::GradScaler scaler({.init_scale = 8.0}, test::asked_for_device());
    const nn::NamedParameter& first = zero.parameters().front();
    double scale = 8;
    for (const bool breaks : {true, false, true}) {
      const Tensor before = first.variable.data().clone();
      backward(ddp, batch);
      // One element, which one rank's piece has.
      if (breaks) first.variable.grad().reshape({-1}).slice(0, 1).fill(std::nan(""));
      zero.take_gradients();
      const bool has_elements =
          std::ranges::any_of(zero.optimizer().parameters(),
                              [](const auto& one) { return one.variable.data().numel() > 0; });
      if (all_reduce_scalar(*group, has_elements ? 1.0 : 0.0, ReduceOp::min) == 0) {
        EXPECT_THROW(zero.agree_on_found_inf(), Error) << "the model is too small";
        return;
      }
      zero.agree_on_found_inf();
      static_cast<void>(scaler.step(zero.optimizer()));
      scaler.update();
      zero.gather();
      if (breaks) scale /= 2;
      EXPECT_EQ(scaler.scale(), scale);
      EXPECT_EQ(max_difference(first.variable.data(), before) == 0.0, breaks);
    }
  });
}

TEST_P(ZeroRedundancy, OptimizersOfWholeParametersAreRefused) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    DistributedDataParallel ddp(std::make_shared<Stack>(), group);
    const auto lamb = [](std::vector<nn::NamedParameter> parameters) {
      return std::make_unique<optim::LAMB>(std::move(parameters));
    };
    EXPECT_THROW(ZeroRedundancyOptimizer(ddp, lamb), InputError);
    ddp.module().set_requires_grad(false);
    EXPECT_THROW(ZeroRedundancyOptimizer(ddp, adamw), Error);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ZeroRedundancy, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
