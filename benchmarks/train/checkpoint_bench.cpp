// What an asynchronous checkpoint every 20 steps costs a training of ResNet-18 (3 x 32 x 32 images,
// SGD with momentum: 85 MiB of state): 20 steps after a save has begun, in turn with 20 steps
// without one. A save still under way at their end is waited for, within the time.
//   LOCKSTEP_BENCH_DIR=/var/tmp mpiexec -n 2 build/release/benchmarks/train/train.checkpoint_bench
// slowdown      median of the rounds' ratios, less 1; least: of the sides' best times
// processor     the same of processor time, all threads, which other programs do not lengthen
// blocked, save of a save, medians: what the step waits for, and until the file has its name
// alone         processor time of a save and a rank while nobody trains, all of which a step on a
//               core of its own loses at worst
// LOCKSTEP_BENCH_BATCH (64) is the global batch, LOCKSTEP_BENCH_ROUNDS (9) how often.
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include <lockstep/checkpoint/save/async_writer.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/mpi_bench.hpp>

namespace lockstep {
namespace {

constexpr int steps_a_side = 20;

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of one side, for each round: the slowest rank's, and of all ranks' processors.
struct Times {
  std::vector<double> wall, processor;
};

template <class Body>
void measure(Times& times, const Body& body) {
  auto& world = bench::world();
  world.barrier();
  const auto start = Clock::now();
  const double processor = processor_seconds();
  body();
  times.wall.push_back(all_reduce_scalar(world, seconds_since(start), ReduceOp::max));
  times.processor.push_back(
      all_reduce_scalar(world, processor_seconds() - processor, ReduceOp::sum));
}

void set_slowdown(benchmark::State& state, const std::string& name, const std::vector<double>& with,
                  const std::vector<double>& without) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with.size(); ++i) ratios.push_back(with[i] / without[i]);
  state.counters[name] = median(ratios) - 1;
  state.counters[name + "_least"] =
      *std::ranges::min_element(with) / *std::ranges::min_element(without) - 1;
}

void every_20_steps(benchmark::State& state) {
  set_math_threads(1);
  auto deck = Deck::parse(R"(
    [data]
    kind = "synthetic"
    synthetic_samples = 6400
    synthetic_channels = 3
    synthetic_image_size = 32
    [optimizer]
    lr = 0.001
    momentum = 0.9
    [model]
    kind = "resnet18"
  )",
                          "train.checkpoint_bench",
                          {"train.batch_size=" + from_environment("LOCKSTEP_BENCH_BATCH", "64")});
  const train::Classification task(deck);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto path = std::filesystem::path(from_environment("LOCKSTEP_BENCH_DIR", "/tmp")) /
                    "lockstep-train-bench.h5";
  {
    train::Trainer trainer(group, task, train::read_run_plan(deck));
    CheckpointContents contents;
    contents.model = trainer.model().state_dict();
    contents.optimizer = trainer.optimizer().state_dict();
    AsyncCheckpointWriter writer(*group);
    writer.reserve(contents.model, contents.optimizer);
    std::int64_t epoch = 0, left = 0;
    const auto train = [&] {
      for (int step = 0; step < steps_a_side; ++step) {
        if (left == 0) {
          trainer.start_epoch(epoch++);
          left = trainer.steps_an_epoch();
        }
        trainer.step();
        --left;
      }
    };
    std::vector<double> blocked, save;
    const auto with_checkpoint = [&] {
      contents.optimizer = trainer.optimizer().state_dict();
      auto saved = writer.save(*group, path, contents);
      train();
      const SaveReport report = saved.get();
      blocked.push_back(1e3 * report.blocked_seconds);
      save.push_back(1e3 * report.seconds);
    };
    Times with, without;
    train();
    with_checkpoint();
    const int rounds = std::stoi(from_environment("LOCKSTEP_BENCH_ROUNDS", "9"));
    for (auto _ : state) {
      for (int round = 0; round < rounds; ++round) {
        measure(without, train);
        measure(with, with_checkpoint);
      }
    }
    state.SetIterationTime(median(without.wall) / steps_a_side);
    set_slowdown(state, "slowdown", with.wall, without.wall);
    set_slowdown(state, "processor", with.processor, without.processor);
    Times alone;
    for (int save = 0; save < 7; ++save)
      measure(alone, [&] { writer.save(*group, path, contents).get(); });
    state.counters["alone_ms"] = 1e3 * median(alone.processor) / group->size();
    state.counters["blocked_ms"] = median(blocked);
    state.counters["save_ms"] = median(save);
    writer.close();
  }
  if (group->rank() == 0) std::filesystem::remove(path);
  group->close();
}

BENCHMARK(every_20_steps)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
