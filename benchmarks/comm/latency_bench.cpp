// Latencies: one 4-byte all_reduce at a time, also with more ranks than cores, with and without the
// contract check; a message there and back; and making a group.
//   mpiexec -n 8 build/release/benchmarks/comm/comm.latency_bench
#include <mpi.h>

#include <algorithm>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <string>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <vector>

namespace lockstep {
namespace {

/// The q-quantile of a rank's calls, each timed separately, in microseconds; on the slowest rank.
class Latencies {
 public:
  template <class Call>
  Latencies(int calls, const Call& call) {
    us_.reserve(static_cast<std::size_t>(calls));
    for (int i = 0; i < calls; ++i) {
      const auto start = Clock::now();
      call();
      us_.push_back(1e6 * seconds_since(start));
    }
    std::sort(us_.begin(), us_.end());
  }
  [[nodiscard]] double quantile(double q) const {
    const auto at = static_cast<std::size_t>(q * static_cast<double>(us_.size() - 1));
    return all_reduce_scalar(bench::world(), us_[at], ReduceOp::max);
  }

 private:
  std::vector<double> us_;
};

void one_all_reduce(benchmark::State& state) {
  const auto t = Tensor::zeros({1});
  for (auto _ : state) {
    bench::world().barrier();
    const Latencies calls(20000, [&] { bench::world().all_reduce(t, ReduceOp::sum).wait(); });
    state.counters["median_us"] = calls.quantile(0.5);
    state.counters["p99_us"] = calls.quantile(0.99);
    state.SetIterationTime(1e-6 * calls.quantile(0.5));
  }
}

void one_raw_mpi_allreduce(benchmark::State& state) {
  float one = 0;
  for (auto _ : state) {
    bench::world().barrier();
    const Latencies calls(
        200, [&] { MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    state.counters["median_us"] = calls.quantile(0.5);
    state.counters["p99_us"] = calls.quantile(0.99);
    state.SetIterationTime(1e-6 * calls.quantile(0.5));
  }
}

void contract(benchmark::State& state) {
  const auto checked = make_mpi_group(MPI_COMM_WORLD, {.contract = Contract::hash});
  const auto unchecked = make_mpi_group(MPI_COMM_WORLD, {.contract = Contract::off});
  const auto t = Tensor::zeros({1});
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("hash", [&] { checked->all_reduce(t, ReduceOp::sum).wait(); });
    sides.add("off", [&] { unchecked->all_reduce(t, ReduceOp::sum).wait(); });
    sides.run();
    sides.report(state);
  }
  checked->close();
  unchecked->close();
}

/// A message of this size, between ranks 0 and 1.
void there_and_back(benchmark::State& state) {
  const auto t = Tensor::zeros({state.range(0)}, DType::u8);
  const int bytes = static_cast<int>(t.numel()), rank = bench::world().rank(), peer = 1 - rank;
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("ours", [&] {
      if (rank == 0) bench::world().send(t, peer);
      if (rank < 2) bench::world().recv(t, peer);
      if (rank == 1) bench::world().send(t, peer);
    });
    sides.add("mpi", [&] {
      if (rank == 0) MPI_Send(t.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
      if (rank < 2) {
        MPI_Recv(t.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      if (rank == 1) MPI_Send(t.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    });
    sides.run();
    sides.report(state);
  }
}

/// Until the last rank has its group.
template <class Make>
void time_making(benchmark::State& state, const Make& make) {
  for (auto _ : state) {
    bench::world().barrier();
    const auto start = Clock::now();
    const auto group = make();
    const double mine = seconds_since(start);
    group->close();
    state.SetIterationTime(all_reduce_scalar(bench::world(), mine, ReduceOp::max));
  }
}

void bootstrap(benchmark::State& state) {
  time_making(state, [] { return make_mpi_group(MPI_COMM_WORLD); });
  state.counters["first_ms"] = 1e3 * bench::bootstrap_seconds();
}

/// Every second rank.
void split(benchmark::State& state) {
  time_making(state, [] { return bench::world().split(bench::world().rank() % 2, 0); });
}

BENCHMARK(one_all_reduce)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(one_raw_mpi_allreduce)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(contract)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(there_and_back)
    ->Arg(4)
    ->Arg(64 << 10)
    ->Arg(16 << 20)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(bootstrap)->UseManualTime()->Iterations(20)->Unit(benchmark::kMillisecond);
BENCHMARK(split)->UseManualTime()->Iterations(20)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
