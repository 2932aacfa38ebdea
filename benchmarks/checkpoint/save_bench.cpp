// Saving and loading a replicated state of f32, of LOCKSTEP_BENCH_MIB MiB (128), and what that is
// to be held against:
//   save            a synchronous save
//   plain_write     the same bytes, each rank its half by pwrite into one file, fsync, rename
//   async_blocked   what a step waits for an asynchronous save
//   copy            one copy of a rank's part of the state into memory that has been touched
//   load            by all ranks together
//   checksum        of as many bytes without and with the look for elements that are not finite
//   LOCKSTEP_BENCH_MIB=1024 mpiexec -n 2 build/release/benchmarks/checkpoint/checkpoint.save_bench
// In the folder LOCKSTEP_BENCH_DIR, by default the system's for temporary files.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/async_writer.hpp>
#include <lockstep/checkpoint/plan.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/slab_summary.hpp>
#include <lockstep/checkpoint/writer.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <support/mpi_bench.hpp>

namespace lockstep {
namespace {

std::int64_t state_bytes() {
  const char* mib = std::getenv("LOCKSTEP_BENCH_MIB");
  return (mib ? std::stoll(mib) : 128) << 20;
}

/// Of this rank.
std::int64_t share_bytes() { return state_bytes() / bench::world().size(); }

std::filesystem::path path() {
  const char* dir = std::getenv("LOCKSTEP_BENCH_DIR");
  return (dir ? std::filesystem::path(dir) : std::filesystem::temp_directory_path()) /
         "lockstep-save-bench.h5";
}

/// Eight tensors, as of a model.
const CheckpointContents& contents() {
  static const CheckpointContents all = [] {
    CheckpointContents made;
    for (int i = 0; i < 8; ++i)
      made.model.insert("weight" + std::to_string(i), Tensor::full({state_bytes() / 32}, 1.5));
    return made;
  }();
  return all;
}

void end(benchmark::State& state) {
  bench::world().barrier();
  if (bench::world().rank() == 0) std::filesystem::remove(path());
  bench::world().barrier();
  state.SetBytesProcessed(state.iterations() * state_bytes());
}

void save(benchmark::State& state) {
  for (auto _ : state) {
    bench::timed_iteration(state, 1,
                           [&] { CheckpointWriter().save(bench::world(), path(), contents()); });
  }
  end(state);
}

void plain_write(benchmark::State& state) {
  auto& world = bench::world();
  const Tensor mine = Tensor::full({share_bytes() / 4}, 1.5);
  for (auto _ : state) {
    bench::timed_iteration(state, 1, [&] {
      std::optional<AtomicFile> target;
      if (world.rank() == 0) target.emplace(path());
      world.barrier();
      const File other =
          target ? File() : File::open_for_writing(AtomicFile::temporary_path_of(path()));
      const File& file = target ? target->file() : other;
      const auto* from = static_cast<const std::byte*>(mine.data());
      for (const Slab& slab : cut_slabs(0, share_bytes()))
        file.write_at(world.rank() * share_bytes() + slab.begin, from + slab.begin, slab.bytes);
      file.sync();
      world.barrier();
      if (target) target->publish();
      world.barrier();
    });
  }
  end(state);
}

void async_blocked(benchmark::State& state) {
  AsyncCheckpointWriter writer(bench::world());
  writer.reserve(contents().model, {});
  for (auto _ : state) {
    std::future<SaveReport> saved;
    bench::timed_iteration(state, 1,
                           [&] { saved = writer.save(bench::world(), path(), contents()); });
    saved.get();
  }
  writer.close();
  end(state);
}

void copy(benchmark::State& state) {
  const Tensor from = Tensor::full({share_bytes() / 4}, 1.5),
               to = Tensor::full({share_bytes() / 4}, 1.0);
  for (auto _ : state) {
    bench::timed_iteration(state, 1, [&] {
      std::memcpy(to.data(), from.data(), from.bytes());
      benchmark::ClobberMemory();
    });
  }
  state.SetBytesProcessed(state.iterations() * state_bytes());
}

void load(benchmark::State& state) {
  CheckpointWriter().save(bench::world(), path(), contents());
  for (auto _ : state) {
    bench::timed_iteration(state, 1, [&] {
      benchmark::DoNotOptimize(load_checkpoint(bench::world(), path(), contents().model));
    });
  }
  end(state);
}

/// This rank's share of the bytes.
void checksum(benchmark::State& state, bool look) {
  const std::int64_t mine = share_bytes();
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
  state.SetBytesProcessed(state.iterations() * state_bytes());
}

BENCHMARK(save)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(plain_write)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(async_blocked)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(copy)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(load)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checksum, without_look, false)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checksum, with_look, true)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
