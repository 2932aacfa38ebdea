// The cost of train.trace: one whole training step with and without, side by side, and one scope.
//   mpiexec -n 2 build/release/benchmarks/train/train.trace_bench
// A call is 20 steps, so that beginning to trace, which a run does once, hardly counts.
#include <mpi.h>

#include <lockstep/base/trace.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <optional>
#include <string>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>

namespace lockstep {
namespace {

void training_step(benchmark::State& state, const char* model) {
  set_math_threads(1);
  auto deck = Deck::parse(R"(
    [data]
    kind = "synthetic"
    synthetic_samples = 12800
    [optimizer]
    lr = 0.001
    momentum = 0.5
  )",
                          "train.trace_bench", {std::string("model.kind=\"") + model + "\""});
  const train::Classification task(deck);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  {
    train::Trainer trainer(group, task, train::read_run_plan(deck));
    trainer.model().name_layers();
    std::int64_t epoch = 0, left = 0;
    const auto steps = [&] {
      for (int step = 0; step < 20; ++step) {
        if (left == 0) {
          trainer.start_epoch(epoch++);
          left = trainer.steps_an_epoch();
        }
        trainer.step();
        --left;
      }
    };
    for (auto _ : state) {
      bench::Sides sides;
      sides.add("off", steps);
      sides.add("on", [&] {
        const TraceSession session(2000);
        steps();
      });
      sides.run(5);
      sides.report(state);
      state.counters["on/off"] = sides.median_us("on") / sides.median_us("off");
    }
  }
  group->close();
}

BENCHMARK_CAPTURE(training_step, convnet, "convnet")
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(training_step, mlp, "mlp")
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);
void scope(benchmark::State& state, bool traced) {
  std::optional<TraceSession> session;
  if (traced) session.emplace(1 << 16);
  for (auto _ : state) {
    const TraceScope one("benchmark", "scope");
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(scope, off, false)->Iterations(1 << 22);
BENCHMARK_CAPTURE(scope, on, true)->Iterations(1 << 20);

}  // namespace
}  // namespace lockstep
