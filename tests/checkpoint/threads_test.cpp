// The whole path with ranks as threads: under ThreadSanitizer, and across sizes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include <checkpoint/sample.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/io/file.hpp>
#include <support/rank_counts.hpp>

namespace lockstep {
namespace {

using test::checkpoint_error_of;
using test::contains;
using test::expect_sample;
using test::sample;
using test::save_on_threads;
using test::scratch;

TEST(CheckpointOnThreads, AnyNumberOfRanksReadsTheBitsThatAnyOtherWrote) {
  for (const int writers : test::counts_of_threads(4)) {
    const auto path = scratch("across") / "a.h5";
    save_on_threads(path, writers);
    for (const int readers : test::counts_of_threads(4)) {
      run_ranks_as_threads(
          readers, [&](ProcessGroup& group) { expect_sample(load_checkpoint(group, path)); });
    }
  }
}

TEST(CheckpointOnThreads, TensorsHaveTheSameLayoutForAnyNumberOfWriters) {
  const auto folder = scratch("same");
  save_on_threads(folder / "1.h5", 1);
  save_on_threads(folder / "3.h5", 3);
  const CheckpointFile one(folder / "1.h5"), three(folder / "3.h5");
  ASSERT_EQ(one.manifest().datasets.size(), three.manifest().datasets.size());
  for (std::size_t i = 0; i < one.manifest().datasets.size(); ++i) {
    const auto &a = one.manifest().datasets[i], &b = three.manifest().datasets[i];
    EXPECT_EQ(a.path, b.path);
    if (!a.path.starts_with("/model/") || a.path == "/model/table") continue;
    ASSERT_EQ(a.slabs.size(), b.slabs.size()) << a.path;
    for (std::size_t s = 0; s < a.slabs.size(); ++s) EXPECT_EQ(a.slabs[s].hash, b.slabs[s].hash);
  }
}

TEST(CheckpointOnThreads, SavingAgainUnderTheSameNameReplacesTheFile) {
  const auto path = scratch("again") / "a.h5";
  save_on_threads(path, 2, 0);
  save_on_threads(path, 2, 50);
  expect_sample(load_checkpoint(path), 50);
}

TEST(CheckpointOnThreads, ALoadedStateCanBeSavedAgain) {
  const auto path = scratch("resave") / "a.h5";
  save_on_threads(path, 1);
  const auto loaded = load_checkpoint(path);
  run_ranks_as_threads(2,
                       [&](ProcessGroup& group) { CheckpointWriter().save(group, path, loaded); });
  const auto twice = load_checkpoint(path);
  expect_sample(twice);
  EXPECT_EQ(twice.metadata.size(), loaded.metadata.size());
}

TEST(CheckpointOnThreads, AFailureOnRankZeroIsToldOnAllAndTheGroupStillWorks) {
  const auto folder = scratch("failure");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "file") << "in the way";
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    const auto contents = sample(group.rank(), group.size());
    const auto error = checkpoint_error_of(
        [&] { CheckpointWriter().save(group, folder / "file" / "a.h5", contents); });
    EXPECT_TRUE(contains(error, "rank 0 of 3: checkpoint ")) << error;
    EXPECT_TRUE(contains(error, "Not a directory")) << error;
    CheckpointWriter().save(group, folder / "b.h5", contents);
  });
  expect_sample(load_checkpoint(folder / "b.h5"));
}

TEST(CheckpointOnThreads, ACauseThatEndsWithAFullStopGetsNoSecondOne) {
  const auto folder = scratch("full-stop");
  std::filesystem::create_directories(folder);
  ASSERT_EQ(::mkfifo((folder / "pipe.h5").c_str(), 0600), 0);
  std::ofstream(folder / "file") << "in the way";
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const auto failure_at = [&](const std::filesystem::path& path) {
      return checkpoint_error_of([&] { CheckpointWriter().save(group, path, sample()); });
    };
    const auto sentence = failure_at(folder / "pipe.h5"),
               fragment = failure_at(folder / "file/a.h5");
    EXPECT_TRUE(sentence.ends_with("Name a file. Earlier checkpoints are unchanged.")) << sentence;
    EXPECT_TRUE(fragment.ends_with("Not a directory. Earlier checkpoints are unchanged."))
        << fragment;
  });
}

TEST(CheckpointOnThreads, ANameInTheWayOfAnotherIsHdf5sSentence) {
  const auto folder = scratch("clash");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    CheckpointContents contents;
    contents.model.insert("a", Tensor::zeros({2}));
    contents.model.insert("a/b", Tensor::zeros({2}));
    const auto error =
        checkpoint_error_of([&] { CheckpointWriter().save(group, folder / "a.h5", contents); });
    EXPECT_TRUE(contains(error, "HDF5 cannot create data set /model/a/b")) << error;
    group.barrier();  // rank 0 has cleared up once it reaches this
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  });
}

// Ranks read from their nodes' own disks, and one has an earlier run's file of that name: the two
// must not be mixed.
TEST(CheckpointOnThreads, LoadingAnotherFileOnOneRankIsToldOnAllRanks) {
  const auto folder = scratch("two-files");
  save_on_threads(folder / "a.h5", 1, 0);
  save_on_threads(folder / "b.h5", 1, 50);
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    const auto path = folder / (group.rank() == 1 ? "b.h5" : "a.h5");
    const auto error =
        checkpoint_error_of([&] { static_cast<void>(load_checkpoint(group, path)); });
    EXPECT_TRUE(contains(error, "is another file on rank 1 than on rank 0")) << error;
  });
}

TEST(CheckpointOnThreads, LoadingAMissingFileIsToldOnAllRanks) {
  const auto path = scratch("none") / "a.h5";
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    const auto error =
        checkpoint_error_of([&] { static_cast<void>(load_checkpoint(group, path)); });
    EXPECT_TRUE(contains(error, "No such file or directory")) << error;
  });
}

}  // namespace
}  // namespace lockstep
