// Sharded training with a GradScaler: ranks hold different gradients and skip the same steps.
#include <lockstep/parallel/sharded/fully_shard.hpp>

#include <cmath>
#include <memory>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/sgd.hpp>

#include "../ranks.hpp"
#include "../sharded_step.hpp"
#include "../small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::loss_of_share;
using test::make_batch;
using test::max_difference;
using test::share_of;

class FullyShardWithScaler : public testing::TestWithParam<int> {};

TEST_P(FullyShardWithScaler, AStepWithANonFiniteGradientOnOneRankIsSkippedByAll) {
  const Batch batch = make_batch(60, 0.3, DType::f32);
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<test::Mlp>(1.0, 40, DType::f32), group);
    optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.1});
    optim::GradScaler scaler({.init_scale = 8.0}, test::asked_for_device());
    const auto values = [&] { return fsdp.named_parameters()[0].variable.data().clone(); };
    for (const bool breaks : {true, false}) {
      const Tensor before = values();
      const double scale = scaler.scale();
      fsdp.zero_grad();
      fsdp.backward(loss_of_share(fsdp, share_of(batch, *group)), 1.0 / group->size(),
                    scaler.scale_tensor());
      if (breaks && group->rank() == group->size() - 1) {
        for (const auto& [name, piece] : fsdp.named_parameters()) {
          if (piece.grad().defined()) piece.grad().fill(std::nan(""));
        }
      }
      fsdp.agree_on_found_inf();
      static_cast<void>(scaler.step(sgd));
      scaler.update();
      EXPECT_EQ(scaler.scale(), breaks ? scale / 2 : scale);
      if (before.numel() == 0) continue;
      EXPECT_EQ(max_difference(values(), before) == 0.0, breaks);
    }
  });
}

/// One branch uses a part of it.
struct Branches : nn::Module {
  Branches()
      : a(register_module("a", std::make_shared<nn::Linear>(16, 16, false))),
        b(register_module("b", std::make_shared<nn::Linear>(16, 64, false))) {}
  Variable forward(const Variable& x) override { return uses_both ? (*b)((*a)(x)) : (*a)(x); }

  bool uses_both = true;
  std::shared_ptr<nn::Linear> a, b;
};

TEST_P(FullyShardWithScaler, ARankWithoutAGradientSkipsTheStepThatOthersSkip) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const nn::DeviceGuard device(test::asked_for_device());
    const auto model = std::make_shared<Branches>();
    FullyShardedDataParallel fsdp(model, group);
    optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.0});
    optim::GradScaler scaler({.init_scale = 8.0}, test::asked_for_device());
    for (const bool overflows : {true, false}) {
      model->uses_both = !overflows;
      fsdp.zero_grad();
      const Variable y = fsdp.forward(Variable(test::wave({4, 16}, 0.3, DType::f32)));
      fsdp.backward(mean(y * y) * (overflows ? 3e38 : 1.0), 1.0 / group->size(),
                    scaler.scale_tensor());
      fsdp.agree_on_found_inf();
      static_cast<void>(scaler.step(sgd));
      scaler.update();
      EXPECT_EQ(scaler.scale(), 4.0) << overflows;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FullyShardWithScaler, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
