#include <lockstep/train/run_folder.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <support/process.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// Wherever it is noticed: a rename in a folder that is gone fails as one on a bad disk does.
TEST(RunFolder, AFailureInAFolderThatIsLostIsThatItIsLost) {
  const test::ScratchFolder scratch;
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const std::string dir = scratch.file("run");
    const RunFolder folder = RunFolder::open(group, {.dir = dir, .stop_before_limit_s = 0}, false);
    const auto write = [&](const char* name) {
      folder.write_in([&] { folder.write(name, "text"); });
    };
    write("there");
    EXPECT_TRUE(fs::exists(dir + "/there"));
    try {
      write("no/such/folder");
      FAIL() << "written";
    } catch (const CheckpointError& error) {
      FAIL() << error.what();
    } catch (const std::exception&) {  // its own failure, as long as the folder is there
    }
    fs::rename(dir, dir + ".away");
    try {
      write("gone");
      FAIL() << "written";
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find("was removed, moved or given to another run"),
                std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace lockstep::train
