// The cost of remote calls between ranks 0 and 1: an echo while the callee polls, one from idle
// beside the wake-up alone, calls per second without waiting for each, and tensors there and back
// beside MPI's own ping-pong of as many bytes.
//   mpiexec -n 2 build/release/benchmarks/rpc/rpc.calls_bench
#include <linux/futex.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <new>
#include <string>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

float echo_number(float x) { return x; }
Tensor echo_tensor(const Tensor& t) { return t; }
LOCKSTEP_RPC(echo_number);
LOCKSTEP_RPC(echo_tensor);

/// Every rank is a worker during a benchmark; `body` runs on rank 0 only.
template <class Body>
void as_workers(const Body& body) {
  rpc::init("worker" + std::to_string(bench::world().rank()), bench::world());
  if (bench::world().rank() == 0) body();
  rpc::shutdown();
}

struct Quantiles {
  double median_us = 0, p99_us = 0;
};

template <class Call>
Quantiles each(int calls, const Call& call) {
  std::vector<double> us;
  us.reserve(static_cast<std::size_t>(calls));
  for (int i = 0; i < calls; ++i) us.push_back(call());
  std::sort(us.begin(), us.end());
  return {.median_us = us[us.size() / 2], .p99_us = us[us.size() * 99 / 100]};
}

double timed_us(const auto& call) {
  const auto start = Clock::now();
  call();
  return 1e6 * seconds_since(start);
}

void report(benchmark::State& state, const Quantiles& q) {
  const double median = all_reduce_scalar(bench::world(), q.median_us, ReduceOp::max);
  state.counters["median_us"] = median;
  state.counters["p99_us"] = all_reduce_scalar(bench::world(), q.p99_us, ReduceOp::max);
  state.SetIterationTime(std::max(1e-6 * median, 1e-9));
}

void echo_awake(benchmark::State& state) {
  for (auto _ : state) {
    Quantiles q;
    as_workers([&] {
      for (int i = 0; i < 2000; ++i) rpc::rpc_sync(1, echo_number, 1.0F);
      q = each(20000, [] { return timed_us([] { rpc::rpc_sync(1, echo_number, 1.0F); }); });
    });
    report(state, q);
  }
}

template <class Call>
Quantiles each_from_idle(const Call& call) {
  return each(100, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return timed_us(call);
  });
}

void echo_from_idle(benchmark::State& state) {
  for (auto _ : state) {
    Quantiles q;
    as_workers([&] { q = each_from_idle([] { rpc::rpc_sync(1, echo_number, 1.0F); }); });
    report(state, q);
  }
}

/// The system's part of that: rank 1 sleeps, is woken (futex), and answers by a word in shared
/// memory, which rank 0 polls.
void wake_from_idle(benchmark::State& state) {
  using Word = std::atomic<std::uint32_t>;
  struct Words {
    alignas(64) Word call, answer;
  };
  const int rank = bench::world().rank();
  constexpr std::uint32_t over = ~0U;
  for (auto _ : state) {
    Words* words = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_allocate_shared(rank == 0 ? sizeof(Words) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &words,
                            &window);
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Win_shared_query(window, 0, &size, &unit, &words);
    if (rank == 0) new (words) Words{};
    bench::world().barrier();
    const auto futex = [&](int operation, std::uint32_t value) {
      syscall(SYS_futex, &words->call, operation, value, nullptr, nullptr, 0);
    };
    Quantiles q;
    if (rank == 0) {
      std::uint32_t calls = 0;
      const auto ring = [&](std::uint32_t number) {
        words->call = number;
        futex(FUTEX_WAKE, 1);
      };
      q = each_from_idle([&] {
        ring(++calls);
        while (words->answer != calls) {
        }
      });
      ring(over);
    } else if (rank == 1) {
      for (std::uint32_t seen = 0; seen != over; seen = words->call) {
        words->answer = seen;
        while (words->call == seen) futex(FUTEX_WAIT, seen);
      }
    }
    report(state, q);
    MPI_Win_free(&window);
  }
}

/// In rounds of this many calls, whose answers are awaited together.
void calls_a_second(benchmark::State& state) {
  const int many = static_cast<int>(state.range(0));
  constexpr int rounds = 100;
  for (auto _ : state) {
    double seconds = 0;
    as_workers([&] {
      std::vector<rpc::Future<float>> futures(static_cast<std::size_t>(many));
      const auto round = [&] {
        for (auto& future : futures) future = rpc::rpc_async(1, echo_number, 1.0F);
        for (const auto& future : futures) static_cast<void>(future.wait());
      };
      round();
      const auto start = Clock::now();
      for (int i = 0; i < rounds; ++i) round();
      seconds = seconds_since(start);
    });
    seconds = all_reduce_scalar(bench::world(), seconds, ReduceOp::max);
    state.counters["calls_per_s"] = rounds * many / seconds;
    state.SetIterationTime(seconds);
  }
}

/// There and back; bandwidth counts both ways.
void tensor_there_and_back(benchmark::State& state) {
  const std::int64_t bytes = state.range(0);
  const auto t = Tensor::zeros({bytes}, DType::u8);
  // Enough to outlast the system's start-up effects for new threads: 500 calls of 1 KiB would take
  // 2 ms.
  const int calls = bytes > (1 << 22) ? 10 : bytes > (1 << 17) ? 500 : 5000;
  const int rank = bench::world().rank(), n = static_cast<int>(bytes);
  for (auto _ : state) {
    Quantiles ours, mpi;
    as_workers([&] {
      for (int i = 0; i < calls / 2; ++i) static_cast<void>(rpc::rpc_sync(1, echo_tensor, t));
      ours = each(calls, [&] {
        return timed_us([&] { static_cast<void>(rpc::rpc_sync(1, echo_tensor, t)); });
      });
    });
    const auto ping_pong = [&] {
      if (rank == 0) MPI_Send(t.data(), n, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      if (rank < 2) {
        MPI_Recv(t.data(), n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      if (rank == 1) MPI_Send(t.data(), n, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    };
    for (int i = 0; i < calls / 2; ++i) ping_pong();
    mpi = each(calls, [&] { return timed_us(ping_pong); });
    report(state, ours);
    state.counters["mpi_us"] = all_reduce_scalar(bench::world(), mpi.median_us, ReduceOp::max);
  }
}

/// Of a rank's own value: no messages.
void reference_made_and_dropped(benchmark::State& state) {
  constexpr int many = 100000;
  for (auto _ : state) {
    double seconds = 0;
    as_workers([&] {
      const auto start = Clock::now();
      for (int i = 0; i < many; ++i) {
        const rpc::RRef<int> reference(i);
        benchmark::DoNotOptimize(&reference);
      }
      seconds = seconds_since(start) / many;
    });
    state.SetIterationTime(all_reduce_scalar(bench::world(), seconds, ReduceOp::max));
  }
}

BENCHMARK(reference_made_and_dropped)->UseManualTime()->Iterations(1)->Unit(benchmark::kNanosecond);
BENCHMARK(echo_awake)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(echo_from_idle)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(wake_from_idle)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(calls_a_second)->Arg(1000)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(tensor_there_and_back)
    ->Arg(1 << 10)
    ->Arg(8 << 10)
    ->Arg(16 << 10)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(64 << 20)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep
