// Saving and loading a replicated state of f32, of LOCKSTEP_BENCH_MIB MiB (128), and reference
// measurements:
//   save            a synchronous save, in turn with plain writes of the same bytes (each rank its
//                   half by pwrite into one file, fsync, rename), and its speed as a part of theirs
//   async_blocked   what a step waits for an asynchronous save
//   copy            one copy of a rank's part of the state into memory that has been touched
//   load            in place: all of it by each rank (replicated), or its share (sharded)
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
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/async_writer.hpp>
#include <lockstep/checkpoint/save/plan.hpp>
#include <lockstep/checkpoint/save/slab_summary.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>

namespace lockstep {
namespace {

std::int64_t state_bytes() {
  const char* mib = std::getenv("LOCKSTEP_BENCH_MIB");
  return (mib ? std::stoll(mib) : 128) << 20;
}

/// Bytes of this rank.
std::int64_t share_bytes() { return state_bytes() / bench::world().size(); }

std::filesystem::path path() {
  const char* dir = std::getenv("LOCKSTEP_BENCH_DIR");
  return (dir ? std::filesystem::path(dir) : std::filesystem::temp_directory_path()) /
         "lockstep-save-bench.h5";
}

/// Eight tensors, as in a model.
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

/// Writes the same bytes to one file, each rank its share.
void write_plainly(const Tensor& mine) {
  auto& world = bench::world();
  std::optional<AtomicFile> target;
  if (world.rank() == 0) target.emplace(path());
  const std::string temporary =
      broadcast_object(world, target ? target->temporary_path().string() : std::string(), 0);
  const File other = target ? File() : File::open_for_writing(temporary);
  const File& file = target ? target->file() : other;
  const auto* from = static_cast<const std::byte*>(mine.data());
  for (const Slab& slab : cut_slabs(0, share_bytes()))
    file.write_at(world.rank() * share_bytes() + slab.begin, from + slab.begin, slab.bytes);
  file.sync();
  world.barrier();
  if (target) target->publish();
  world.barrier();
}

void save(benchmark::State& state) {
  const Tensor mine = Tensor::full({share_bytes() / 4}, 1.5);
  bench::Sides sides;
  sides.add("save", [] { CheckpointWriter().save(bench::world(), path(), contents()); });
  sides.add("plain_write", [&] { write_plainly(mine); });
  for (auto _ : state) sides.run();
  sides.report(state);
  state.counters["of_plain_write"] = sides.median_us("plain_write") / sides.median_us("save");
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

/// The same tensors, each rank with its rows.
const CheckpointContents& sharded_contents() {
  static const CheckpointContents all = [] {
    CheckpointContents made;
    const auto& world = bench::world();
    for (int i = 0; i < 8; ++i) {
      const auto rows = Tensor::full({share_bytes() / 32}, 1.5);
      made.model.insert(
          "weight" + std::to_string(i), rows,
          Placement::rows(rows, world.rank() * rows.size(0), world.size() * rows.size(0)));
    }
    return made;
  }();
  return all;
}

/// In place, as a training does; `mine` is each rank's state.
void load(benchmark::State& state, const CheckpointContents& (*mine)()) {
  CheckpointWriter().save(bench::world(), path(), mine());
  for (auto _ : state) {
    bench::timed_iteration(state, 1, [&] {
      benchmark::DoNotOptimize(load_checkpoint_in_place(bench::world(), path(), mine().model));
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

BENCHMARK(save)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(async_blocked)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(copy)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, replicated, contents)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, sharded, sharded_contents)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checksum, without_look, false)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checksum, with_look, true)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
