// Training on a simulated device: the host's bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {
namespace {

constexpr Device device{DeviceType::sim, 0};

/// Layers compute one by one, on plain images: on the host too, as on a device.
struct Plainly : nn::ForwardHook {
  void before(const nn::Module& /*module*/, const Variable& /*x*/) override {}
  void after(const nn::Module& /*module*/, const Variable& /*y*/) override {}
};

std::string bits(const StateDict& state) {
  std::string all;
  for (const auto& entry : state) {
    const Tensor here = entry.tensor.to(Device{});
    all.append(static_cast<const char*>(here.data()), here.bytes());
  }
  return all;
}

/// What a training comes to.
struct Result {
  std::string model, optimizer;
  std::vector<double> losses;
  double loss = 0;
  NamedFigures metrics;
};

void expect_same(const Result& here, const Result& there) {
  EXPECT_EQ(here.losses, there.losses);
  EXPECT_TRUE(here.model == there.model) << "the models differ";
  EXPECT_TRUE(here.optimizer == there.optimizer) << "the optimizers' states differ";
  EXPECT_EQ(here.loss, there.loss);
  EXPECT_EQ(here.metrics, there.metrics);
}

struct Case {
  const char* name;
  std::vector<std::string> overrides;
  bool values = false;  ///< fits values, not classes
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

Result train(const Case& one, Device where) {
  set_math_threads(1);
  auto deck = Deck::parse(R"(
    data = {kind = "synthetic", synthetic_samples = 60, synthetic_test_samples = 30, synthetic_image_size = 16}
    model = {kind = "mlp", hidden = [16, 12]}
    train = {batch_size = 20}
    optimizer = {lr = 0.05, momentum = 0.9}
  )",
                          "device_test", one.overrides);
  RunPlan plan = read_run_plan(deck);
  plan.device = where;
  const std::unique_ptr<Task> task = std::make_unique<Classification>(deck);
  const Plainly hook;
  Trainer trainer(std::make_shared<FakeGroup>(1, 0), *task, plan);
  Result result;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    trainer.start_epoch(epoch);
    for (std::int64_t step = 0; step < trainer.steps_an_epoch(); ++step)
      result.losses.push_back(trainer.step());
  }
  const Evaluation found = trainer.evaluate();
  for (const auto& entry : trainer.model().state_dict())
    EXPECT_EQ(entry.tensor.device(), where) << entry.name;
  result.model = bits(trainer.model().state_dict());
  result.optimizer = bits(trainer.optimizer().state_dict());
  result.loss = found.loss;
  result.metrics = found.metrics;
  return result;
}

class OnDevice : public testing::TestWithParam<Case> {};

TEST_P(OnDevice, TrainsToTheHostsBits) {
  const Result host = train(GetParam(), Device{});
  for (const std::uint64_t seed : {1U, 2U}) {
    SimulatedRuntime::instance().set_seed(seed);
    expect_same(host, train(GetParam(), device));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Trainer, OnDevice,
    testing::Values(Case{"mlp", {}}, Case{"mlp_adam", {R"(optimizer.kind="adamw")"}},
                    Case{"mlp_clipped", {"optimizer.clip_norm=0.1"}},
                    Case{"mlp_clipped_values", {"optimizer.clip_value=0.01"}},
                    Case{"mlp_accumulate", {"train.accumulate=3"}},
                    Case{"mlp_bf16", {R"(train.precision="bf16")"}},
                    Case{"mlp_fp16", {R"(train.precision="fp16")", "train.loss_scale=1024"}},
                    Case{"mlp_invariant", {R"(train.reduction="invariant")", "train.shards=4"}},
                    Case{"mlp_weighted_classes",
                         {"loss.class_weights=[1,2,3,4,5,6,7,8,9,10]", "loss.label_smoothing=0.1"}},
                    Case{"mlp_averaged", {R"(averaging.kind="ema")", "averaging.decay=0.5"}},
                    Case{"convnet", {R"(model.kind="convnet")"}},
                    Case{"resnet", {R"(model.kind="resnet18")"}},
                    Case{"transformer",
                         {R"(model.kind="transformer")", "model.patch=4", "model.width=16",
                          "model.depth=2", "model.heads=2"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::train
