// Causal attention, forward and backward, of one sequence: undivided on one rank, and over slices
// on all ranks, contiguous and zigzag; width 768, 12 heads, f32, one thread a rank.
//   mpiexec -n 2 -bind-to core build/release/benchmarks/parallel/parallel.ring_attention_bench
#include <mpi.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/parallel/context/ring_attention.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <random>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <vector>

namespace lockstep {
namespace {

constexpr std::int64_t heads = 12, width = 768;

void causal_attention(benchmark::State& state) {
  set_math_threads(1);
  const GroupPtr group = make_mpi_group(MPI_COMM_WORLD);
  const std::int64_t length = state.range(0);
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in every run
  std::vector<float> values(static_cast<std::size_t>(length * 3 * width));
  for (float& x : values) x = std::normal_distribution<float>()(random);
  const Tensor qkv = Tensor::from(values, {1, length, 3 * width});
  const auto of_slices = [&](SequenceOrder order) {
    const Variable x(sequence_slice(qkv, group->rank(), group->size(), order), true);
    return [x, order, &group] {
      x.zero_grad();
      sum(ring_self_attention(x, heads, group, {.causal = true, .order = order})).backward();
    };
  };
  const Variable whole(qkv, true);
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("undivided", [&] {
      if (group->rank() != 0) return;
      whole.zero_grad();
      AttentionOptions causal;
      causal.causal = true;
      sum(self_attention(whole, heads, causal)).backward();
    });
    sides.add("contiguous", of_slices(SequenceOrder::contiguous));
    sides.add("zigzag", of_slices(SequenceOrder::zigzag));
    sides.run(10);
    sides.report(state);
    const double undivided = sides.median_us("undivided");
    state.counters["contiguous_speedup"] = undivided / sides.median_us("contiguous");
    state.counters["zigzag_speedup"] = undivided / sides.median_us("zigzag");
  }
  group->close();
}
BENCHMARK(causal_attention)
    ->ArgName("length")
    ->Arg(1024)
    ->Arg(2048)
    ->Arg(4096)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
