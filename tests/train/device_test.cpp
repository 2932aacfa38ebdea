// Training on a device: the host's bits on a simulated one, an equally good model on a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <data/hdf5_files.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/data/tokens/token_file.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/train/report/chrome_trace.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>
#include <support/test_devices.hpp>

namespace lockstep::train {
namespace {

constexpr Device device{DeviceType::sim, 0};

std::string bits(const StateDict& state) {
  std::string all;
  for (const auto& entry : state) {
    const Tensor here = entry.tensor.to(Device{});
    all.append(static_cast<const char*>(here.data()), here.bytes());
  }
  return all;
}

/// Result of a training.
struct Result {
  std::string model, optimizer;
  std::vector<double> losses;
  double loss = 0, updates = 0;
  NamedFigures metrics;
};

void expect_same(const Result& here, const Result& there) {
  EXPECT_EQ(here.losses, there.losses);
  EXPECT_TRUE(here.model == there.model) << "the models differ";
  EXPECT_TRUE(here.optimizer == there.optimizer) << "the optimizers' states differ";
  EXPECT_EQ(here.loss, there.loss);
  EXPECT_EQ(here.updates, there.updates);
  EXPECT_EQ(here.metrics, there.metrics);
}

enum class Kind : std::uint8_t { images, text, fields };

struct Case {
  const char* name;
  std::vector<std::string> overrides;
  Kind data = Kind::images;
  int ranks = 1;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

/// Windows of eight tokens, or fields of two channels and their successors.
std::string make_data(const test::ScratchFolder& scratch, Kind kind) {
  if (kind == Kind::text) {
    std::vector<std::uint16_t> tokens;
    for (std::uint16_t i = 0; i < 8 * 20 * 6 + 1; ++i) tokens.push_back(i * i % 11);
    write_token_file(scratch.file("train.bin"), tokens, 11);
    return "data={kind=\"tokens\", context=8, test_set=false, validation_fraction=0.2, path='" +
           scratch.file("") + "'}";
  }
  const std::string file = scratch.file("fields.h5");
  for (const auto& [set, samples] : {std::pair("train", 12), std::pair("test", 5)}) {
    for (const auto& [name, channels] : {std::pair("/features", 2), std::pair("/targets", 1)}) {
      std::vector<float> values(static_cast<std::size_t>(samples * channels) * 8 * 8);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = std::sin(static_cast<float>(i * i % 997 + static_cast<std::size_t>(channels)));
      test::write_hdf5(file, std::string(set) + name, {samples, channels, 8, 8}, values);
    }
  }
  return "data={kind=\"hdf5\", normalise_targets=true, path='" + file + "'}";
}

std::unique_ptr<Task> make_task(Deck& deck, Kind kind) {
  switch (kind) {
    case Kind::images:
      return std::make_unique<Classification>(deck);
    case Kind::text:
      return std::make_unique<LanguageModel>(deck);
    case Kind::fields:
      return std::make_unique<Regression>(deck);
  }
  return nullptr;
}

/// Two epochs and an evaluation.
Result train(const std::shared_ptr<ProcessGroup>& group, const Task& task, const RunPlan& plan) {
  Trainer trainer(group, task, plan);
  Result result;
  for (std::int64_t epoch = 0; epoch < plan.train.epochs; ++epoch) {
    trainer.start_epoch(epoch);
    for (std::int64_t step = 0; step < trainer.steps_an_epoch(); ++step)
      result.losses.push_back(trainer.step());
  }
  const Evaluation found = trainer.evaluate();
  for (const auto& entry : trainer.model().state_dict())
    EXPECT_EQ(entry.tensor.device(), plan.device) << entry.name;
  result.model = bits(trainer.model().state_dict());
  const StateDict state = trainer.optimizer().state_dict();
  result.optimizer = bits(state);
  for (const auto& entry : state) {
    if (entry.name.ends_with("/step")) result.updates = entry.tensor.item();
  }
  result.loss = found.loss;
  result.metrics = found.metrics;
  return result;
}

/// For every rank, with a device of its own, or on the host.
std::vector<Result> train(const Case& one, DeviceType where) {
  set_math_threads(1);
  const test::ScratchFolder scratch;
  std::vector<std::string> overrides = one.overrides;
  if (one.data != Kind::images) overrides.push_back(make_data(scratch, one.data));
  std::vector<Result> results(static_cast<std::size_t>(one.ranks));
  std::mutex data_mutex;  // HDF5 files are opened one at a time
  run_ranks_as_threads(one.ranks, [&](ProcessGroup& group) {
    RunPlan plan;
    std::unique_ptr<Task> task;
    {
      const std::lock_guard lock(data_mutex);
      auto deck = Deck::parse(R"(
        run = {layout = "plain"}
        data = {kind = "synthetic", synthetic_samples = 60, synthetic_test_samples = 30, synthetic_image_size = 16}
        model = {kind = "mlp", hidden = [16, 12]}
        train = {batch_size = 20, epochs = 2}
        optimizer = {lr = 0.05, momentum = 0.9}
      )",
                              "device_test", overrides);
      plan = read_run_plan(deck);
      task = make_task(deck, one.data);
    }
    if (where != DeviceType::host) plan.device = {where, group.rank()};
    results[static_cast<std::size_t>(group.rank())] =
        train(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
  });
  return results;
}

/// A GPU rounds differently, and training amplifies that.
void expect_close(const Result& here, const Result& there) {
  ASSERT_EQ(here.losses.size(), there.losses.size());
  for (std::size_t i = 0; i < here.losses.size(); ++i)
    EXPECT_NEAR(here.losses[i], there.losses[i], 0.02 * (1 + std::abs(here.losses[i])))
        << "step " << i + 1;
  EXPECT_NEAR(here.loss, there.loss, 0.05 * (1 + here.loss));
  EXPECT_EQ(here.model.size(), there.model.size());
  EXPECT_EQ(here.optimizer.size(), there.optimizer.size());
}

constexpr auto
    small_gpt = R"(model={kind="gpt", depth=2, width=16, heads=2, residual_dropout=0.1})",
    small_unet = R"(model={kind="unet", channels=16, levels=1, norm="batch"})",
    small_transformer = R"(model={kind="transformer", patch=[4, 4], width=16, depth=2, heads=2})",
    resnet = R"(model.kind="resnet18")", convnet = R"(model.kind="convnet")",
    four_images =
        R"(data={kind="synthetic", synthetic_samples=4, synthetic_test_samples=2, synthetic_image_size=12})",
    one_epoch = "train={batch_size=4, epochs=1}";

const std::vector<Case> cases{
    Case{"mlp", {}}, Case{"mlp_adam", {R"(optimizer.kind="adamw")"}},
    Case{"mlp_clipped", {"optimizer.clip_norm=0.1"}},
    Case{"mlp_clipped_values", {"optimizer.clip_value=0.01"}},
    Case{"mlp_accumulate", {"train.accumulate=3"}}, Case{"mlp_bf16", {R"(train.precision="bf16")"}},
    Case{"mlp_fp16", {R"(train.precision="fp16")", "train.loss_scale=1024"}},
    Case{"mlp_invariant", {R"(train.reduction="invariant")", "train.shards=4"}},
    Case{"mlp_weighted_classes",
         {"loss.class_weights=[1,2,3,4,5,6,7,8,9,10]", "loss.label_smoothing=0.1"}},
    Case{"mlp_averaged", {R"(averaging.kind="ema")", "averaging.decay=0.5"}},
    Case{"mlp_frozen", {R"(model.freeze=["fc1.*"])"}}, Case{"convnet", {convnet}},
#ifndef __SANITIZE_THREAD__  // 11 million parameters take 75 s there
    Case{"resnet", {resnet, four_images, one_epoch}},
#endif
    Case{"gpt", {small_gpt, R"(optimizer={kind="adamw", lr=0.01})"}, Kind::text},
    Case{"gpt_recomputed",
         {R"(model={kind="gpt", depth=2, width=16, heads=2, recompute=true})",
          R"(train={precision="bf16", batch_size=20, epochs=1})"},
         Kind::text},
    Case{"transformer", {small_transformer}}, Case{"unet", {small_unet, one_epoch}, Kind::fields},
    // Each number of ranks has other settings of the training.
    Case{"mlp_on_2",
         {R"(ddp.comm_hook="post_local_sgd")", "ddp.local_sgd_start_step=1",
          "ddp.local_sgd_period=2", "eval.top_k=3"},
         Kind::images,
         2},
    Case{"convnet_on_2",
         {convnet, R"(ddp.comm_hook="fp16_compress")", "train.accumulate=2",
          R"(averaging.kind="ema")"},
         Kind::images,
         2},
    Case{"unet_on_2",
         {small_unet, R"(train={batch_size=4, epochs=1, precision="bf16"})",
          "ddp.sync_batch_norm=true", R"(optimizer={kind="adam", clip_norm=0.1})",
          R"(averaging.kind="swa")"},
         Kind::fields,
         2},
    Case{"transformer_on_4",
         {small_transformer, R"(ddp.comm_hook="power_sgd")", "ddp.power_sgd_start_step=1",
          "train.epochs=1"},
         Kind::images,
         4},
    Case{"gpt_on_4",
         {small_gpt, R"(optimizer={kind="adamw", lr=0.01, clip_norm=1.0})",
          R"(train={precision="fp16", loss_scale=1024, batch_size=20, epochs=1})"},
         Kind::text,
         4}};

/// On GPUs with one rank: there may be only one GPU.
std::vector<std::pair<Case, DeviceType>> cases_on_devices() {
  std::vector<std::pair<Case, DeviceType>> all;
  for (const Device at : test::devices_to_test()) {
    for (const Case& one : cases) {
      if (at.type == DeviceType::sim || one.ranks == 1) all.emplace_back(one, at.type);
    }
  }
  return all;
}

class OnDevice : public testing::TestWithParam<std::pair<Case, DeviceType>> {};

TEST_P(OnDevice, TrainsAsOnTheHost) {
  const auto& [one, where] = GetParam();
  const auto host = train(one, DeviceType::host);
  SimulatedRuntime::instance().set_seed(7);
  std::vector<Result> there;
  const bool runs =
      test::runs_on({where, 0}, [&, &one = one, where = where] { there = train(one, where); });
  if (!runs) return;
  for (std::size_t rank = 0; rank < host.size(); ++rank) {
    SCOPED_TRACE(rank);
    if (where == DeviceType::sim) {
      expect_same(host[rank], there[rank]);
    } else {
      expect_close(host[rank], there[rank]);
    }
    // A device maps and unmaps its memory around each wait.
    CachingAllocator::of({where, static_cast<int>(rank)}).flush();
  }
}

INSTANTIATE_TEST_SUITE_P(Trainer, OnDevice, testing::ValuesIn(cases_on_devices()),
                         [](const auto& info) {
                           return std::string(info.param.first.name) + "_" +
                                  std::string(name_of(info.param.second));
                         });

/// What the log says of run.graphs while it lives.
class GraphLog {
 public:
  GraphLog() {
    set_log_sink([this](LogLevel, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (message.starts_with("run.graphs: ")) said_.emplace_back(message);
    });
  }
  ~GraphLog() { set_log_sink({}); }
  GraphLog(const GraphLog&) = delete;
  GraphLog& operator=(const GraphLog&) = delete;

  [[nodiscard]] std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> said_;
};

/// The case with steps before, in and after the capture, and smaller batches between them.
Case with_graphs(Case one, bool graphs) {
  const bool is_small = std::ranges::find(one.overrides, four_images) != one.overrides.end();
  one.overrides.emplace_back(is_small ? "train.epochs=6" : "train.epochs=3");
  if (!is_small && one.data == Kind::images) one.overrides.emplace_back("train.batch_size=16");
  if (graphs) one.overrides.emplace_back("run.graphs=true");
  return one;
}

class GraphOnDevice : public testing::TestWithParam<Case> {};

TEST_P(GraphOnDevice, ReplaysStepsWithTheBitsOfPlainOnes) {
  const auto plain = train(with_graphs(GetParam(), false), DeviceType::sim);
  for (const std::uint64_t seed : {3, 8}) {
    SimulatedRuntime::instance().set_seed(seed);
    GraphLog log;
    const auto replayed = train(with_graphs(GetParam(), true), DeviceType::sim);
    expect_same(plain[0], replayed[0]);
    const auto said = log.said();
    ASSERT_EQ(said.size(), 1U);
    EXPECT_NE(said[0].find("is captured, and replayed from now on"), std::string::npos) << said[0];
  }
  CachingAllocator::of(device).flush();
}

std::vector<Case> cases_of_one_rank() {
  std::vector<Case> all;
  std::ranges::copy_if(cases, std::back_inserter(all), [](const Case& one) {
    return one.ranks == 1 && std::string_view(one.name) != "mlp_invariant";
  });
  all.push_back(
      {"mlp_radam", {R"(optimizer.kind="radam")", R"(schedule={kind="one_cycle", unit="step"})"}});
  all.push_back({"mlp_adamw_schedule", {R"(optimizer.kind="adamw")", R"(schedule.kind="cosine")"}});
  all.push_back(
      {"mlp_groups", {R"(optimizer.group_pattern=["*.bias"])", "optimizer.group_lr_factor=[2.0]"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Trainer, GraphOnDevice, testing::ValuesIn(cases_of_one_rank()),
                         [](const auto& info) { return std::string(info.param.name); });

struct PlainCase {
  Case one;
  const char* reason;
};
void PrintTo(const PlainCase& plain, std::ostream* out) { *out << plain.one.name; }

class NoGraphOnDevice : public testing::TestWithParam<PlainCase> {};

TEST_P(NoGraphOnDevice, RunsPlainStepsAndTheLogSaysWhyOnce) {
  const auto& [one, reason] = GetParam();
  const auto plain = train(with_graphs(one, false), DeviceType::sim);
  GraphLog log;
  const auto tried = train(with_graphs(one, true), DeviceType::sim);
  for (std::size_t rank = 0; rank < plain.size(); ++rank) expect_same(plain[rank], tried[rank]);
  ASSERT_EQ(log.said().size(), 1U);
  EXPECT_NE(log.said()[0].find(reason), std::string::npos) << log.said()[0];
}

INSTANTIATE_TEST_SUITE_P(
    Trainer, NoGraphOnDevice,
    testing::Values(
        PlainCase{{"lars", {R"(optimizer.kind="lars")"}}, "optimizer.kind = \"lars\""},
        PlainCase{{"two_ranks", {}, Kind::images, 2}, "2 ranks exchange gradients"},
        PlainCase{{"zero", {"train.zero=1", R"(optimizer.kind="adamw")"}}, "train.zero"},
        PlainCase{{"compressed", {R"(ddp.comm_hook="bf16_compress")"}}, "ddp.comm_hook"},
        // Found out in the attempt.
        PlainCase{{"invariant", {R"(train.reduction="invariant")", "train.shards=4"}},
                  "all_reduce on a device cannot be captured"}),
    [](const auto& info) { return std::string(info.param.one.name); });

TEST(Trainer, SaysThatTheHostHasNoGraphs) {
  GraphLog log;
  static_cast<void>(train(with_graphs({"mlp", {}}, true), DeviceType::host));
  EXPECT_EQ(log.said(), std::vector<std::string>{
                            "run.graphs: steps run without a graph, as the host has no graphs"});
}

// The scale is halved until gradients are finite: in the beginning some steps are skipped, of sgd's
// also those before and in the capture.
TEST(Trainer, LeavesTheSameStepsOutOnADevice) {
  for (const bool adamw : {true, false}) {
    const Case overflows{"mlp",
                         {R"(train.precision="fp16")",
                          adamw ? "train.loss_scale=4194304" : "train.loss_scale=67108864",
                          "train.epochs=4", "optimizer.clip_norm=0.1",
                          adamw ? R"(optimizer.kind="adamw")" : "optimizer.momentum=0.9"}};
    const Result host = train(overflows, DeviceType::host)[0];
    EXPECT_GT(host.updates, 0);
    EXPECT_LT(host.updates, adamw ? 12 : 9);
    expect_same(host, train(overflows, DeviceType::sim)[0]);
    Case replayed = overflows;
    replayed.overrides.emplace_back("run.graphs=true");
    expect_same(host, train(replayed, DeviceType::sim)[0]);
  }
}

/// The losses that the parts of a training get.
struct Listener final : TrainingPart {
  [[nodiscard]] std::string name() const override { return "listener"; }
  void after_step(const Training& training, const StepResult& step) override {
    heard.push_back({training.state.step, step.loss_step});
    if (step.loss_step > 0) losses[step.loss_step] = step.loss_sum;
  }
  void save(PartState& /*state*/) const override { ++saved; }
  mutable std::int64_t saved = -1;  ///< how often; at the start of a run all is asked for once
  std::vector<std::pair<std::int64_t, std::int64_t>> heard;
  std::map<std::int64_t, double> losses;
};

/// In one step's batch a target has no valid class.
struct WrongTarget : Classification {
  using Classification::Classification;
  Variable loss(const Variable& output, const Batch& batch) const override {
    if (grad_enabled() && ++steps == wrong_step) batch.targets().slice(0, 1).fill(10);
    return Classification::loss(output, batch);
  }
  std::int64_t wrong_step = 0;
  mutable std::int64_t steps = 0;
};

/// One epoch of six steps, logged every fourth.
Outcome run(Device where, const std::shared_ptr<TrainingPart>& part,
            std::vector<std::string> overrides = {}, std::int64_t wrong_step = 0) {
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
  WrongTarget task(deck);
  task.wrong_step = wrong_step;
  const auto group = std::make_shared<FakeGroup>(1, 0);
  Trainer trainer(group, task, plan, {}, {part});
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

/// Makes the device hang from the first kernel of its fourth step until that step's part of the
/// host has ended, or for a while.
struct Hang final : TrainingPart {
  [[nodiscard]] std::string name() const override { return "hang"; }
  void before_step(const Training& training) override {
    if (training.state.step != 3) return;
    SimulatedRuntime::instance().inject(device.index, {.hang_at = 1});
    rescue = std::thread([this] {
      std::unique_lock lock(mutex);
      if (over.wait_for(lock, std::chrono::seconds(20), [this] { return is_over; })) return;
      host_was_held = true;
      SimulatedRuntime::instance().let_go(device.index);
    });
  }
  void after_step(const Training& training, const StepResult& /*step*/) override {
    if (training.state.step != 4) return;
    {
      const std::lock_guard lock(mutex);
      is_over = true;
    }
    over.notify_all();
    rescue.join();
    SimulatedRuntime::instance().let_go(device.index);
    has_hung = true;
  }

  std::thread rescue;
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false, host_was_held = false, has_hung = false;
};

class StepOnDevice : public testing::TestWithParam<Case> {};

TEST_P(StepOnDevice, IsGivenToTheDeviceWithoutWaitingForIt) {
  const auto hang = std::make_shared<Hang>();
  std::vector<std::string> overrides = GetParam().overrides;
  overrides.emplace_back("log.every_steps=100");
  EXPECT_EQ(run(device, hang, overrides).steps, 6);
  EXPECT_TRUE(hang->has_hung);
  EXPECT_FALSE(hang->host_was_held);
}

INSTANTIATE_TEST_SUITE_P(
    Trainer, StepOnDevice,
    testing::Values(
        Case{"plain", {}}, Case{"graphs", {"run.graphs=true"}},
        Case{"graphs_fp16", {"run.graphs=true", R"(train.precision="fp16")"}},
        Case{"clip_norm", {"optimizer.clip_norm=0.1"}},
        Case{"clip_value", {"optimizer.clip_value=0.1"}},
        Case{"fp16", {R"(train.precision="fp16")"}},
        Case{"fp16_adamw_clipped",
             {R"(train.precision="fp16")", "optimizer.clip_norm=0.1", R"(optimizer.kind="adamw")"}},
        Case{"invariant", {R"(train.reduction="invariant")", "train.shards=2"}},
        Case{"accumulate", {"train.accumulate=2"}}, Case{"averaged", {R"(averaging.kind="ema")"}},
        Case{"lars", {R"(optimizer.kind="lars")"}},
        Case{"lamb", {R"(optimizer.kind="lamb")", "optimizer.clip_norm=0.1"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Trainer, TracesADevicesPhasesWhenItWorkedOnThem) {
  const TraceSession session(10000);
  const auto hang = std::make_shared<Hang>();  // no event of the fourth step begins in its time
  EXPECT_EQ(run(device, hang, {"log.every_steps=100"}).steps, 6);
  std::map<std::int64_t, std::map<std::string_view, TraceEvent>> of_device;
  std::vector<TraceEvent> of_host;  // optimizer
  for (const TraceTrack& track : session.tracks()) {
    for (const TraceEvent& event : track.events) {
      if (std::string_view(event.category) == device_category) {
        EXPECT_STREQ(event.detail, "sim:0");
        of_device[event.number][event.name] = event;
      } else if (std::string_view(event.name) == "optimizer") {
        of_host.push_back(event);
      }
    }
  }
  ASSERT_EQ(of_device.size(), 6U);
  ASSERT_EQ(of_host.size(), 6U);
  std::int64_t end = 0;
  for (std::int64_t step = 1; step <= 6; ++step) {
    ASSERT_EQ(of_device.at(step).size(), 3U) << "step " << step;
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      const TraceEvent& event = of_device.at(step).at(phase);
      EXPECT_GE(event.start_ns, end) << phase << " of step " << step;
      EXPECT_GE(event.end_ns, event.start_ns);
      end = event.end_ns;
    }
  }
  EXPECT_GT(of_device.at(4).at("backward").start_ns, of_host[3].end_ns);
}

TEST(Trainer, TracesAReplayAsOnePhase) {
  const TraceSession session(10000);
  EXPECT_EQ(run(device, std::make_shared<Listener>(), {"run.graphs=true"}).steps, 6);
  std::map<std::int64_t, std::vector<std::string>> phases;
  for (const TraceTrack& track : session.tracks()) {
    for (const TraceEvent& event : track.events) {
      if (std::string_view(event.category) == device_category)
        phases[event.number].emplace_back(event.name);
    }
  }
  EXPECT_EQ(phases[3].size(), 3U);
  for (const std::int64_t step : {5, 6})
    EXPECT_EQ(phases[step], std::vector<std::string>{"graph"}) << "step " << step;
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

TEST(Trainer, ReportsAWrongTargetBeforeSavingTheSpoiltState) {
  for (const std::int64_t step : {2, 4, 6}) {  // between logged ones; logged; the epoch's last
    const auto failure = [&](Device where, const std::shared_ptr<Listener>& listener) {
      return test::message_of<InputError>([&] {
        static_cast<void>(
            run(where, listener, {"checkpoint.every_steps=1", "checkpoint.async=false"}, step));
      });
    };
    const auto here = std::make_shared<Listener>(), there = std::make_shared<Listener>();
    const std::string of_host = failure(Device{}, here);
    EXPECT_NE(of_host.find("10"), std::string::npos) << of_host;
    EXPECT_EQ(failure(device, there), of_host);
    EXPECT_EQ(here->saved, step - 1);
    EXPECT_EQ(there->saved, step - 1);
  }
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
