// The training step of every bundled model allocates nothing, neither by operator new nor in the
// tensor allocator's system side, loader and dropout included.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>

#include <lockstep/base/trace.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/tokens/token_file.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/elastic.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/allocation_counter.hpp>

namespace lockstep::train {
namespace {

struct Run {
  const char* name;
  std::vector<std::string> overrides;
  bool traced = false;
  Device device = {};
};

void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

/// For a training of at least 41 steps per epoch, on a device 121. The number of collectives in
/// progress there, each with pinned memory, depends on timing, and the largest number may come
/// late. So one of five windows of twenty steps must allocate nothing.
void expect_no_allocations(const std::shared_ptr<ProcessGroup>& group, const Task& task,
                           const RunPlan& plan, bool traced) {
  const int rounds = plan.device == Device{} ? 1 : 5;
  Trainer trainer(group, task, plan);
  std::optional<TraceSession> session;
  if (traced) session.emplace(1000);  // fewer events than there will be
  trainer.model().name_layers();
  trainer.start_epoch(0);
  ASSERT_GE(trainer.steps_an_epoch(), 20 * (rounds + 1) + 1);
  for (int step = 0; step < 20; ++step) trainer.step();
  const auto tracks = [&] { return session ? std::ssize(session->tracks()) : 0; };
  const auto of_system = [&] {
    return memory_stats().system_allocations + memory_stats(plan.device).system_allocations;
  };
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < rounds; ++round) {
    group->barrier();
    const auto tracks_before = tracks();
    const auto before = test::allocation_count() + of_system();
    for (int step = 0; step < 20; ++step) trainer.step();
    const auto allocations = test::allocation_count() + of_system() - before;
    // A thread that was idle until then, for example that of communication's progress on a busy
    // machine, gets its track: events, their owner, and a longer list of those.
    least = std::min<std::int64_t>(least, allocations - 3 * (tracks() - tracks_before));
  }
  EXPECT_LE(least, 0);
}

TEST(StopRequestSteadyState, AskingOnceAStepAllocatesNothing) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  {
    StopRequest stop(*group, {.stop_before_limit_s = 0});
    for (int step = 1; step <= 20; ++step) static_cast<void>(stop.requested(step));
    group->barrier();
    const auto before = test::allocation_count();
    for (int step = 21; step <= 40; ++step) static_cast<void>(stop.requested(step));
    EXPECT_EQ(test::allocation_count() - before, 0);
  }
  group->close();
}

class SteadyState : public testing::TestWithParam<Run> {};

TEST_P(SteadyState, StepsTwentyToFortyAllocateNothing) {
  set_math_threads(1);
  auto deck = Deck::parse(R"(
    [data]
    kind = "synthetic"
    [train]
    batch_size = 4
    [model]
    depth = 2
    encoder_dropout = 0.1
    [optimizer]
    lr = 0.01
    momentum = 0.5
  )",
                          "steady state", GetParam().overrides);
  const Classification task(deck);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  RunPlan plan = read_run_plan(deck);
  plan.device = GetParam().device;
  expect_no_allocations(group, task, plan, GetParam().traced);
  group->close();
}

class LanguageModelSteadyState : public testing::TestWithParam<bool> {};

TEST_P(LanguageModelSteadyState, StepsTwentyToFortyAllocateNothing) {
  set_math_threads(1);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto folder =
      std::filesystem::temp_directory_path() / ("steady_state_" + std::to_string(getpid()));
  write_token_file(folder / "train.bin", std::vector<std::uint16_t>(50 * 8 * 16 + 1, 7), 50);
  auto deck = Deck::parse(R"(
    [data]
    kind = "tokens"
    context = 16
    test_set = false
    [train]
    batch_size = 8
    accumulate = 2
    [model]
    kind = "gpt"
    depth = 2
    residual_dropout = 0.1
    [optimizer]
    kind = "adamw"
    clip_norm = 1.0
    group_pattern = ["*.bias", "*ln_?.weight"]
    group_weight_decay = [0, 0]
    [schedule]
    kind = "warmup_cosine"
    unit = "step"
    warmup = 10
  )",
                          "steady state",
                          {"data.path='" + folder.string() + "'",
                           std::string("model.recompute=") + (GetParam() ? "true" : "false")});
  const LanguageModel task(deck);
  expect_no_allocations(group, task, read_run_plan(deck), false);
  group->close();
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Recompute, LanguageModelSteadyState, testing::Bool());

INSTANTIATE_TEST_SUITE_P(
    Models, SteadyState,
    testing::Values(
        Run{"convnet", {"model.kind='convnet'"}},
        Run{"convnet_traced", {"model.kind='convnet'"}, true}, Run{"mlp", {"model.kind='mlp'"}},
        Run{"convnet_on_a_device", {"model.kind='convnet'"}, false, {DeviceType::sim, 0}},
        Run{"mlp_clipped_on_a_device",
            {"model.kind='mlp'", "optimizer.clip_norm=0.1"},
            false,
            {DeviceType::sim, 0}},
        Run{"mlp_in_fp16_on_a_device",
            {"model.kind='mlp'", "train.precision='fp16'",
             "optimizer={kind='lamb', lr=0.01, clip_norm=0.1}"},
            false,
            {DeviceType::sim, 0}},
        Run{"mlp_invariant_on_a_device",
            {"model.kind='mlp'", "train.reduction='invariant'", "train.shards=4"},
            false,
            {DeviceType::sim, 0}},
        Run{"with_outputs",
            {"model.kind='mlp'", "log.tensorboard=true", "log.prometheus=true", "log.ranks=true"}},
        Run{"averaged", {"model.kind='mlp'", "averaging.kind='ema'"}},
        Run{"mlp_with_class_weights",
            {"model.kind='mlp'", "loss.label_smoothing=0.1",
             "loss.class_weights=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"}},
        Run{"resnet18", {"model.kind='resnet18'", "data.synthetic_image_size=12"}},
        Run{"resnet18_in_bf16",
            {"model.kind='resnet18'", "data.synthetic_image_size=12", "train.precision='bf16'"}},
        Run{"transformer", {"model.kind='transformer'"}},
        Run{"transformer_in_fp16", {"model.kind='transformer'", "train.precision='fp16'"}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep::train
