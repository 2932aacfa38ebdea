// The training step of every bundled model allocates nothing, neither by operator new nor from the
// tensor allocator's system side, loader and dropout included.
#include <gtest/gtest.h>
#include <mpi.h>

#include <optional>

#include <lockstep/base/trace.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/allocation_counter.hpp>

namespace lockstep::train {
namespace {

struct Run {
  const char* name;
  std::vector<std::string> overrides;
  bool traced = false;
};

void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

class SteadyState : public testing::TestWithParam<Run> {};

TEST_P(SteadyState, StepsTwentyToFortyAllocateNothing) {
  set_math_threads(1);
  auto deck = Deck::parse(R"(
    [data]
    kind = "synthetic"
    [train]
    batch_size = 8
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
  {
    Trainer trainer(group, task, read_run_plan(deck));
    std::optional<TraceSession> session;
    if (GetParam().traced) session.emplace(1000);  // fewer events than there will be
    trainer.model().name_layers();
    trainer.start_epoch(0);
    ASSERT_GE(trainer.steps_an_epoch(), 41);
    for (int step = 0; step < 20; ++step) trainer.step();
    group->barrier();
    const auto before = test::allocation_count() + memory_stats().system_allocations;
    for (int step = 20; step < 40; ++step) trainer.step();
    EXPECT_EQ(test::allocation_count() + memory_stats().system_allocations - before, 0);
  }
  group->close();
}

INSTANTIATE_TEST_SUITE_P(
    Models, SteadyState,
    testing::Values(Run{"convnet", {"model.kind='convnet'"}},
                    Run{"convnet_traced", {"model.kind='convnet'"}, true},
                    Run{"mlp", {"model.kind='mlp'"}},
                    Run{"mlp_with_class_weights",
                        {"model.kind='mlp'", "loss.label_smoothing=0.1",
                         "loss.class_weights=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"}},
                    Run{"resnet18", {"model.kind='resnet18'"}},
                    Run{"transformer", {"model.kind='transformer'"}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep::train
