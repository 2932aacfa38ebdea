// The cost of log.tensorboard: one step line's figures, written and flushed, as every 50 steps of a
// run do.
//   build/release/benchmarks/train/train.event_file_bench
#include <benchmark/benchmark.h>

#include <filesystem>
#include <lockstep/train/report/event_file.hpp>
#include <string>

namespace lockstep {
namespace {

void step_line(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path() / "lockstep-event_file_bench";
  {
    train::EventFile file(folder, 0);
    std::int64_t step = 0;
    for (auto _ : state) {
      train::EventSummary values;
      for (std::int64_t figure = 0; figure < state.range(0); ++figure) {
        values.add_scalar("train_time_min_mean_max_s/figure" + std::to_string(figure), 0.5);
      }
      file.add(step += 50, values);
      file.flush();
    }
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(step_line)->ArgName("figures")->Arg(24)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep
