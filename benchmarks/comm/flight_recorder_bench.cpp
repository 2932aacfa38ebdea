// The flight recorder's overhead per operation: its start and its end, with a label.
#include <vector>

#include <benchmark/benchmark.h>

#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/operation.hpp>

namespace {

using namespace lockstep;

void record(benchmark::State& state) {
  const auto recorder = FlightRecorder::open({.job = 1, .rank = 0, .size = 1}, "");
  if (!recorder) return state.SkipWithError("no folder for the ring");
  const int group = recorder->add_group(0, std::vector<int>{0});
  Operation operation{.kind = Operation::Kind::all_reduce, .input = Tensor::zeros({128, 64})};
  operation.output = operation.input;
  const CallLabel label("bucket", 2);
  for (auto _ : state) {
    ++operation.sequence;
    const auto ticket = recorder->entered(group, operation);
    recorder->agreed(ticket);
    recorder->completed(ticket);
  }
}
BENCHMARK(record);

}  // namespace
