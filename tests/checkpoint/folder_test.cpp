#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include <checkpoint/sample.hpp>
#include <lockstep/base/log.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::scratch;

TEST(CheckpointFolder, NamesHaveEightDigitsOrMore) {
  EXPECT_EQ(checkpoint_path("runs/x", 938), "runs/x/step-00000938.h5");
  EXPECT_EQ(checkpoint_path("x", 12'345'678'901), "x/step-12345678901.h5");
}

TEST(CheckpointFolder, ListsNewestFirstByNumberAndNothingElse) {
  const auto folder = scratch("list");
  fs::create_directories(folder);
  for (const char* name : {"step-00000002.h5", "step-100000000.h5", "step-99999999.h5", "step-.h5",
                           "step-1x.h5", "step--0000001.h5", "a.h5", "step-00000003.h5.partial"})
    std::ofstream(folder / name) << "x";
  EXPECT_EQ(list_checkpoints(folder),
            (std::vector<fs::path>{folder / "step-100000000.h5", folder / "step-99999999.h5",
                                   folder / "step-00000002.h5"}));
  EXPECT_TRUE(list_checkpoints(folder / "none").empty());
}

TEST(CheckpointFolder, TheNewestGoodOneIsFoundAndTheBadOnesAreNamed) {
  const auto folder = scratch("newest");
  for (const int step : {1, 2, 3, 4}) test::save_on_threads(checkpoint_path(folder, step), 1);
  fs::copy_file(checkpoint_path(folder, 1), checkpoint_path(folder, 5));
  fs::resize_file(checkpoint_path(folder, 3), 1000);
  std::ofstream(checkpoint_path(folder, 4)) << "not a checkpoint";
  std::string warnings;
  std::mutex mutex;
  set_log_sink([&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    warnings += std::string(message) + "\n";
  });
  EXPECT_EQ(newest_good_checkpoint(folder), checkpoint_path(folder, 2));
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    EXPECT_EQ(newest_good_checkpoint(group, folder), checkpoint_path(folder, 2));
    EXPECT_EQ(newest_good_checkpoint(group, folder / "none"), std::nullopt);
  });
  set_log_sink({});
  EXPECT_TRUE(contains(warnings, "skipped: checkpoint " + checkpoint_path(folder, 5).string() +
                                     " is of step 1, not of the step in its name. Rename it to "
                                     "step-00000001.h5, or move it away."))
      << warnings;
  EXPECT_TRUE(contains(warnings, "skipped: checkpoint " + checkpoint_path(folder, 4).string()));
  EXPECT_TRUE(contains(warnings, checkpoint_path(folder, 3).string() +
                                     " is damaged: it has 1000 bytes, but was written with "))
      << warnings;
}

}  // namespace
}  // namespace lockstep
