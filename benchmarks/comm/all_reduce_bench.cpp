// Ours against MPI's blocking all-reduce, in the same run, from 4 B to 64 MiB a rank:
//   mpiexec -n 2 build/release/benchmarks/comm/comm.all_reduce_bench
#include <algorithm>

#include <mpi.h>
#include <lockstep/base/clock.hpp>
#include <support/mpi_bench.hpp>

namespace lockstep {
namespace {

/// Calls between two clock readings: the clock and the barrier must not show in small messages.
int batch_of(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{1} << 20) / bytes, 1, 1000));
}

// Bus bandwidth = bytes / time * 2 (n-1) / n: what each link carried, to be held against the
// hardware. NVIDIA/nccl-tests, doc/PERFORMANCE.md, "AllReduce".
void report_bandwidth(benchmark::State& state) {
  const double n = bench::world().size();
  state.counters["busbw"] =
      benchmark::Counter(static_cast<double>(state.range(0)) * 2 * (n - 1) / n,
                         benchmark::Counter::kIsIterationInvariantRate);
}

void all_reduce(benchmark::State& state) {
  auto& world = bench::world();
  const auto t = Tensor::zeros({state.range(0) / 4});
  for (auto _ : state) {
    bench::timed_iteration(state, batch_of(state.range(0)),
                           [&] { world.all_reduce(t, ReduceOp::sum).wait(); });
  }
  report_bandwidth(state);
}

void raw_mpi_allreduce(benchmark::State& state) {
  const auto t = Tensor::zeros({state.range(0) / 4});
  const int count = static_cast<int>(t.numel());
  for (auto _ : state) {
    bench::timed_iteration(state, batch_of(state.range(0)), [&] {
      MPI_Allreduce(MPI_IN_PLACE, t.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
  }
  report_bandwidth(state);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  // A fixed number of iterations, because Google Benchmark would add up the time of single calls,
  // of which an iteration makes many, and go on for minutes.
  benchmark->UseManualTime()->ArgName("bytes")->Iterations(200);
  for (const std::int64_t bytes :
       {4L, 64L, 1L << 10, 16L << 10, 256L << 10, 1L << 20, 4L << 20, 25L << 20, 64L << 20}) {
    benchmark->Arg(bytes);
  }
}

BENCHMARK(all_reduce)->Apply(sizes);
BENCHMARK(raw_mpi_allreduce)->Apply(sizes);

}  // namespace
}  // namespace lockstep
