// One whole training step of each bundled model: loader, forward, backward, all-reduce, optimizer.
// Generated images of Fashion-MNIST's shape; the global batch is divided over the ranks.
//   mpiexec -n 2 build/release/benchmarks/train/train.step_bench
#include <mpi.h>

#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <string>
#include <support/mpi_bench.hpp>

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
                          "train.step_bench",
                          {std::string("model.kind=\"") + model + "\"",
                           "train.batch_size=" + std::to_string(state.range(0))});
  const train::Classification task(deck);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  {
    train::Trainer trainer(group, task, train::read_run_plan(deck));
    std::int64_t epoch = 0, left = 0;
    for (auto _ : state) {
      bench::timed_iteration(state, 20, [&] {
        if (left == 0) {
          trainer.start_epoch(epoch++);
          left = trainer.steps_an_epoch();
        }
        trainer.step();
        --left;
      });
    }
  }
  group->close();
  state.counters["samples/s"] = benchmark::Counter(static_cast<double>(state.range(0)),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(training_step, convnet, "convnet")
    ->UseManualTime()
    ->ArgName("batch")
    ->Arg(64)
    ->Arg(128)
    ->Arg(512);
BENCHMARK_CAPTURE(training_step, mlp, "mlp")->UseManualTime()->ArgName("batch")->Arg(128);

}  // namespace
}  // namespace lockstep
