// A save of 128 MiB of f32, and what of it the look for elements that are not finite costs: the
// checksums of as many bytes without it and with it, slab by slab as a save does them.
//   mpiexec -n 2 build/release/benchmarks/checkpoint/checkpoint.save_bench
// In the folder LOCKSTEP_BENCH_DIR, by default the system's for temporary files.
#include <cstdlib>
#include <filesystem>

#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/plan.hpp>
#include <lockstep/checkpoint/slab_summary.hpp>
#include <lockstep/checkpoint/writer.hpp>
#include <support/mpi_bench.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t state_bytes = std::int64_t{128} << 20;

std::filesystem::path folder() {
  const char* dir = std::getenv("LOCKSTEP_BENCH_DIR");
  return dir ? std::filesystem::path(dir) : std::filesystem::temp_directory_path();
}

void save(benchmark::State& state) {
  CheckpointContents contents;
  contents.model.insert("weight", Tensor::full({state_bytes / 4}, 1.5));
  const auto path = folder() / "lockstep-save-bench.h5";
  for (auto _ : state) {
    bench::timed_iteration(state, 1,
                           [&] { CheckpointWriter().save(bench::world(), path, contents); });
  }
  if (bench::world().rank() == 0) std::filesystem::remove(path);
  state.SetBytesProcessed(state.iterations() * state_bytes);
}

/// This rank's share of the bytes.
void checksum(benchmark::State& state, bool look) {
  const std::int64_t mine = state_bytes / bench::world().size();
  const Tensor t = Tensor::full({mine / 4}, 1.5);
  for (auto _ : state) {
    bench::timed_iteration(state, 1, [&] {
      for (const Slab& slab : cut_slabs(0, mine)) {
        const auto* from = static_cast<const std::byte*>(t.data()) + slab.begin;
        if (look) {
          benchmark::DoNotOptimize(summarise(from, slab.bytes, DType::f32));
        } else {
          benchmark::DoNotOptimize(hash64(from, static_cast<std::size_t>(slab.bytes)));
        }
      }
    });
  }
  state.SetBytesProcessed(state.iterations() * state_bytes);
}

BENCHMARK(save)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checksum, without_look, false)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checksum, with_look, true)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
