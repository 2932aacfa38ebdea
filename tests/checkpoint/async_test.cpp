// Saves in the background. Holding HDF5's lock blocks rank 0's thread before it has written
// anything, so the tests do not depend on timing.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>

#include <checkpoint/sample.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/save/async_writer.hpp>
#include <lockstep/io/hdf5.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep {
namespace {

using test::checkpoint_error_of;
using test::contains;
using test::expect_sample;
using test::sample;
using test::save_on_threads;
using test::scratch;

/// While it lives on rank 0, no save gets beyond staging.
std::unique_ptr<Hdf5Lock> hold_up_writing(const ProcessGroup& group) {
  return group.rank() == 0 ? std::make_unique<Hdf5Lock>() : nullptr;
}

/// Every byte of a file by its checksums, except time stamps: HDF5 writes them in groups.
std::string fingerprint(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  Manifest manifest = file.manifest();
  std::erase_if(manifest.datasets, [](const auto& d) { return d.path == "/metadata/written"; });
  manifest.structure_hash = 0;
  return std::to_string(file.bytes()) + "\n" + manifest.to_text();
}

TEST(AsyncSave, WritesTheBytesOfASynchronousSave) {
  for (const int ranks : {1, 3}) {
    const auto folder = scratch("async-same");
    save_on_threads(folder / "sync.h5", ranks);
    run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
      AsyncCheckpointWriter writer(group);
      auto saved = writer.save(group, folder / "async.h5", sample(group.rank(), group.size()));
      const SaveReport report = saved.get();
      EXPECT_EQ(report.bytes,
                static_cast<std::int64_t>(std::filesystem::file_size(folder / "async.h5")));
      EXPECT_GT(report.blocked_seconds, 0.0);
      EXPECT_LE(report.blocked_seconds, report.seconds);
      writer.close();
    });
    EXPECT_EQ(fingerprint(folder / "async.h5"), fingerprint(folder / "sync.h5"));
    expect_sample(load_checkpoint(folder / "async.h5"));
  }
}

StateDict moved_to(Device device, const StateDict& state) {
  StateDict moved;
  for (const auto& [name, tensor, placement] : state)
    moved.insert(name, tensor.to(device), placement);
  return moved;
}

TEST(AsyncSave, StateOfADeviceIsTheHostsFileAndComesBack) {
  for (const Compression compression : {Compression::none, Compression::deflate}) {
    const auto folder = scratch("async-device");
    run_ranks_as_threads(2, [&](ProcessGroup& group) {
      const Device device{DeviceType::sim, group.rank()};
      const auto here = sample(group.rank(), group.size());
      auto there = here;
      there.model = moved_to(device, here.model);
      there.optimizer = moved_to(device, here.optimizer);
      CheckpointWriter(compression).save(group, folder / "host.h5", here);
      CheckpointWriter(compression).save(group, folder / "sync.h5", there);
      AsyncCheckpointWriter writer(group, std::chrono::seconds(10), compression);
      writer.reserve(there.model, there.optimizer);
      auto saved = writer.save(group, folder / "async.h5", there);
      for (const auto& entry : there.model) entry.tensor.zero();
      static_cast<void>(saved.get());

      const auto got =
          load_checkpoint_in_place(group, folder / "async.h5", there.model, there.optimizer);
      copy_state(got.model, there.model);
      copy_state(got.optimizer, there.optimizer);
      test::expect_same_bits(moved_to(Device{}, there.model), here.model);
      test::expect_same_bits(moved_to(Device{}, there.optimizer), here.optimizer);
      there.model.at("conv1.bias").fill(std::nan(""));
      EXPECT_THROW(static_cast<void>(writer.save(group, folder / "nan.h5", there)), NotFiniteError);
      writer.close();
    });
    EXPECT_EQ(fingerprint(folder / "sync.h5"), fingerprint(folder / "host.h5"));
    EXPECT_EQ(fingerprint(folder / "async.h5"), fingerprint(folder / "host.h5"));
  }
}

TEST(AsyncSave, ChangesOfTheNextStepDoNotReachTheFile) {
  const auto path = scratch("async-changed") / "a.h5";
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    const auto contents = sample(group.rank(), group.size());
    auto held = hold_up_writing(group);
    auto saved = writer.save(group, path, contents);
    for (const auto* state : {&contents.model, &contents.optimizer}) {
      for (const auto& entry : *state) entry.tensor.fill(7);
    }
    group.barrier();
    held.reset();
    saved.get();
  });
  expect_sample(load_checkpoint(path));
}

TEST(AsyncSave, OneIsUnderWayAtATimeAndTheNextWaitsForIt) {
  const auto folder = scratch("async-busy");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    EXPECT_FALSE(writer.is_busy());
    EXPECT_TRUE(writer.wait(std::chrono::milliseconds(0)));
    auto held = hold_up_writing(group);
    auto first = writer.save(group, folder / "1.h5", sample(group.rank(), group.size(), 10));
    EXPECT_TRUE(writer.is_busy());
    EXPECT_FALSE(writer.wait(std::chrono::milliseconds(20)));
    EXPECT_FALSE(std::filesystem::exists(folder / "1.h5"));
    group.barrier();
    held.reset();
    auto second = writer.save(group, folder / "2.h5", sample(group.rank(), group.size(), 20));
    EXPECT_TRUE(std::filesystem::exists(folder / "1.h5")) << "the second waits for the first";
    first.get();
    second.get();
    EXPECT_TRUE(writer.wait(std::chrono::seconds(60)));
    EXPECT_FALSE(writer.is_busy());
  });
  expect_sample(load_checkpoint(folder / "1.h5"), 10);
  expect_sample(load_checkpoint(folder / "2.h5"), 20);
}

TEST(AsyncSave, AFailureComesWithTheReportOnAllRanksAndTheNextSaveWorks) {
  const auto folder = scratch("async-failure");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "file") << "in the way";
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    const auto contents = sample(group.rank(), group.size());
    auto saved = writer.save(group, folder / "file" / "a.h5", contents);
    const auto error = checkpoint_error_of([&] { saved.get(); });
    EXPECT_TRUE(contains(error, "rank 0 of 3: checkpoint " + (folder / "file/a.h5").string()))
        << error;
    EXPECT_TRUE(contains(error, "Not a directory")) << error;
    writer.save(group, folder / "b.h5", contents).get();
  });
  expect_sample(load_checkpoint(folder / "b.h5"));
}

TEST(AsyncSave, AStateThatIsNotFiniteIsRefusedBeforeTheCallerGoesOn) {
  const auto folder = scratch("async-not-finite");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    const auto contents = sample(group.rank(), group.size());
    if (group.rank() == 1) contents.model.at("table").fill(std::nan(""));
    EXPECT_THROW(static_cast<void>(writer.save(group, folder / "a.h5", contents)), NotFiniteError);
    EXPECT_FALSE(writer.is_busy());
    auto anyway = writer.save(group, folder / "b.h5", contents, NotFinite::save);
    EXPECT_EQ(anyway.get().not_finite, "/model/table");
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "a.h5"));
  EXPECT_TRUE(std::filesystem::exists(folder / "b.h5"));
}

TEST(AsyncSave, TheEndOfItsWriterWaitsForIt) {
  const auto path = scratch("async-end") / "a.h5";
  std::atomic<int> published = 0;
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    const auto count = [&](const SaveReport& report) {
      EXPECT_TRUE(std::filesystem::exists(path));
      EXPECT_GT(report.bytes, 0);
      ++published;
    };
    static_cast<void>(
        writer.save(group, path, sample(group.rank(), group.size()), NotFinite::refuse, count));
  });
  EXPECT_EQ(published, 2) << "once a rank";
  expect_sample(load_checkpoint(path));
}

TEST(AsyncSave, AWriterDestroyedInTheMiddleLeavesNoFileAndNoHang) {
  const auto path = scratch("async-gone") / "a.h5";
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    std::optional<AsyncCheckpointWriter> writer;
    writer.emplace(group, std::chrono::milliseconds(20));
    auto held = hold_up_writing(group);
    auto saved = writer->save(group, path, sample(group.rank(), group.size()));
    if (group.rank() == 1) writer.reset();
    group.barrier();
    held.reset();
    writer.reset();
    EXPECT_THROW(saved.get(), CommError);
  });
  EXPECT_TRUE(std::filesystem::is_empty(path.parent_path()));
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(AsyncSave, MemoryDoesNotGrowOverTwentySaves) {
  const auto folder = scratch("async-memory");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    AsyncCheckpointWriter writer(group);
    CheckpointContents contents;
    contents.model.insert("a",
                          test::pattern({std::int64_t{4} << 20}));  // 8 MiB per rank are staged
    const auto save = [&](int step) {
      const auto name = std::to_string(step % 2) + ".h5";
      writer.save(group, folder / name, contents).get();
    };
    writer.reserve(contents.model, contents.optimizer);
    for (int step = 0; step < 3; ++step) save(step);
    group.barrier();
    const auto before = memory_stats();
    const auto resident = resident_bytes();
    for (int step = 0; step < 20; ++step) save(step);
    group.barrier();
    EXPECT_EQ(memory_stats().system_allocations, before.system_allocations);
    EXPECT_LT(resident_bytes() - resident, 80 << 20) << "one copy leaked would be 160 MiB";
    group.barrier();
  });
}

}  // namespace
}  // namespace lockstep
