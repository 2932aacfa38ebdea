#pragma once
#include <benchmark/benchmark.h>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::bench {

/// The group of all ranks that mpiexec started.
[[nodiscard]] ProcessGroup& world();
/// The time to make it after MPI_Init, with all first-time costs; on the slowest rank.
[[nodiscard]] double bootstrap_seconds();

/// One iteration: all ranks meet, then run `body` `batch` times; the iteration's time is the
/// slowest rank's, divided by `batch`. Call it in `for (auto _ : state)` of a benchmark with
/// UseManualTime(). Sharing the slowest rank's time also gives every rank the same iteration count;
/// with each rank's own time the ranks would stop after different iterations and hang.
template <class Body>
void timed_iteration(benchmark::State& state, int batch, const Body& body) {
  world().barrier();  // a late rank is not the collective's fault
  const auto start = Clock::now();
  for (int i = 0; i < batch; ++i) body();
  const double mine = seconds_since(start) / batch;
  state.SetIterationTime(all_reduce_scalar(world(), mine, ReduceOp::max));
}

}  // namespace lockstep::bench
