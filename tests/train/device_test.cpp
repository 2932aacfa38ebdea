// Training on a device: the host's bits on a simulated one, a model as good on a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/data/tokens/token_file.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/process.hpp>
#include <support/test_devices.hpp>

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
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

/// Images of ten classes, or where the deck says so, tokens.
Result train(const Case& one, Device where) {
  set_math_threads(1);
  const test::ScratchFolder scratch;
  std::vector<std::string> overrides = one.overrides;
  const bool is_text = std::string_view(one.name).starts_with("gpt");
  if (is_text) {
    std::vector<std::uint16_t> tokens;
    for (std::uint16_t i = 0; i < 8 * 20 * 6 + 1; ++i) tokens.push_back(i * i % 11);
    write_token_file(scratch.file("train.bin"), tokens, 11);
    overrides.push_back(
        "data={kind=\"tokens\", context=8, test_set=false, validation_fraction=0.2, path='" +
        scratch.file("") + "'}");
  }
  auto deck = Deck::parse(R"(
    data = {kind = "synthetic", synthetic_samples = 60, synthetic_test_samples = 30, synthetic_image_size = 16}
    model = {kind = "mlp", hidden = [16, 12]}
    train = {batch_size = 20, epochs = 2}
    optimizer = {lr = 0.05, momentum = 0.9}
  )",
                          "device_test", overrides);
  RunPlan plan = read_run_plan(deck);
  plan.device = where;
  std::unique_ptr<Task> task;
  if (is_text) {
    task = std::make_unique<LanguageModel>(deck);
  } else {
    task = std::make_unique<Classification>(deck);
  }
  const Plainly hook;
  Trainer trainer(std::make_shared<FakeGroup>(1, 0), *task, plan);
  Result result;
  for (std::int64_t epoch = 0; epoch < plan.train.epochs; ++epoch) {
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

/// A GPU rounds otherwise, and training makes more of it.
void expect_close(const Result& here, const Result& there) {
  ASSERT_EQ(here.losses.size(), there.losses.size());
  for (std::size_t i = 0; i < here.losses.size(); ++i)
    EXPECT_NEAR(here.losses[i], there.losses[i], 0.02 * (1 + std::abs(here.losses[i])))
        << "step " << i + 1;
  EXPECT_NEAR(here.loss, there.loss, 0.05 * (1 + here.loss));
  EXPECT_EQ(here.model.size(), there.model.size());
  EXPECT_EQ(here.optimizer.size(), there.optimizer.size());
}

const std::vector<Case> cases{
    Case{"mlp", {}},
    Case{"mlp_adam", {R"(optimizer.kind="adamw")"}},
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
    Case{"resnet",
         {R"(model.kind="resnet18")", "data.synthetic_samples=4", "train.epochs=1",
          "data.synthetic_test_samples=2", "train.batch_size=4"}},
    Case{"gpt",
         {R"(model={kind="gpt", depth=2, width=16, heads=2, residual_dropout=0.1})",
          R"(optimizer={kind="adamw", lr=0.01})"}},
    Case{"gpt_recomputed",
         {R"(model={kind="gpt", depth=2, width=16, heads=2, recompute=true})",
          R"(train={precision="bf16", batch_size=20, epochs=1})"}},
    Case{"transformer",
         {R"(model.kind="transformer")", "model.patch=[4, 4]", "model.width=16", "model.depth=2",
          "model.heads=2"}}};

class OnDevice : public testing::TestWithParam<std::tuple<Case, Device>> {};

TEST_P(OnDevice, TrainsAsOnTheHost) {
  const auto& [one, where] = GetParam();
  const Result host = train(one, Device{});
  SimulatedRuntime::instance().set_seed(7);
  Result found;
  const bool runs =
      test::runs_on(where, [&, &one = one, where = where] { found = train(one, where); });
  if (!runs) return;
  if (where.type == DeviceType::sim) {
    expect_same(host, found);
  } else {
    expect_close(host, found);
  }
}

INSTANTIATE_TEST_SUITE_P(Trainer, OnDevice,
                         testing::Combine(testing::ValuesIn(cases),
                                          testing::ValuesIn(test::devices_to_test())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  test::kind_of(std::get<1>(info.param));
                         });

/// What the parts of a training are told of losses.
struct Listener final : TrainingPart {
  [[nodiscard]] std::string name() const override { return "listener"; }
  void after_step(const Training& training, const StepResult& step) override {
    heard.push_back({training.state.step, step.loss_step});
    if (step.loss_step > 0) losses[step.loss_step] = step.loss_sum;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> heard;
  std::map<std::int64_t, double> losses;
};

/// One epoch of six steps, logged every fourth.
Outcome run(Device where, const std::shared_ptr<Listener>& listener,
            std::vector<std::string> overrides = {}) {
  set_math_threads(1);
  const test::ScratchFolder scratch;
  overrides.push_back("run.dir='" + scratch.file("run") + "'");
  auto deck = Deck::parse(R"(
    data = {kind = "synthetic", synthetic_samples = 60, synthetic_test_samples = 10, synthetic_image_size = 8}
    model = {kind = "mlp", hidden = [8]}
    train = {batch_size = 10, epochs = 1}
    log = {every_steps = 4}
    checkpoint = {every_epochs = 0}
  )",
                          "device_test", overrides);
  RunPlan plan = read_run_plan(deck);
  plan.device = where;
  const Classification task(deck);
  const auto group = std::make_shared<FakeGroup>(1, 0);
  Trainer trainer(group, task, plan, {}, {listener});
  const RunFolder folder = RunFolder::open(*group, plan.run, false);
  MetricsFile metrics(folder.file("metrics.jsonl"));
  Console console(0);
  console.set_level(LogLevel::error);
  return trainer.run(folder, metrics, console, deck.resolved());
}

TEST(Trainer, ReadsTheLossOfADeviceOneStepLateButForStepsThatAreLogged) {
  const auto here = std::make_shared<Listener>(), there = std::make_shared<Listener>();
  const Outcome of_host = run(Device{}, here), of_device = run(device, there);
  EXPECT_EQ(of_host.steps, 6);
  EXPECT_EQ(of_device.train_loss, of_host.train_loss);
  using Heard = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(here->heard, (Heard{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}}));
  EXPECT_EQ(there->heard, (Heard{{1, 0}, {2, 1}, {3, 2}, {4, 4}, {5, 0}, {6, 6}}));
  for (const std::int64_t step : {1, 2, 4, 6})
    EXPECT_EQ(there->losses.at(step), here->losses.at(step)) << "step " << step;
}

TEST(Trainer, NamesTheStepOfALossThatIsNotFiniteOnADeviceToo) {
  const auto failure = [](Device where, const std::shared_ptr<Listener>& listener) -> std::string {
    try {
      static_cast<void>(run(where, listener, {"optimizer.lr=1e30"}));
    } catch (const NonFiniteLoss& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto here = std::make_shared<Listener>(), there = std::make_shared<Listener>();
  const std::string of_host = failure(Device{}, here);
  EXPECT_NE(of_host.find("at step "), std::string::npos) << of_host;
  EXPECT_EQ(failure(device, there), of_host);
}

TEST(Trainer, FailureOfTheDeviceEndsTheRunInASentence) {
  constexpr Device failing{DeviceType::sim, 5};
  auto& runtime = SimulatedRuntime::instance();
  for (const std::int64_t launch : {3, 40, 90}) {  // as the model is made; in a step; later
    runtime.inject(failing.index, {.error_at = launch});
    try {
      static_cast<void>(run(failing, std::make_shared<Listener>()));
      ADD_FAILURE() << "launch " << launch << " did not fail";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("sim:5"), std::string::npos) << error.what();
    }
    runtime.let_go(failing.index);
  }
  EXPECT_EQ(run(failing, std::make_shared<Listener>()).steps, 6) << "nothing is left of it";
}

}  // namespace
}  // namespace lockstep::train
