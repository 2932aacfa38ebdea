// A segment leaves nothing in /dev/shm: its name exists only until all ranks have it open. This
// program stands between the library and posix_fallocate().
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi/shared_segment.hpp>

namespace lockstep {
namespace {

/// Whether /dev/shm holds a file that this process has made.
bool has_left_a_file() {
  const std::string mine = "lockstep-" + std::to_string(getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator(shared_memory_folder)) {
    if (entry.path().filename().string().starts_with(mine)) return true;
  }
  return false;
}

bool had_a_file_while_reserving = false;

}  // namespace
}  // namespace lockstep

extern "C" int posix_fallocate(int file, off_t begin, off_t bytes) {
  if (lockstep::has_left_a_file()) lockstep::had_a_file_while_reserving = true;
  return fallocate(file, 0, begin, bytes) == 0 ? 0 : errno;
}

namespace lockstep {
namespace {

const MpiWait long_enough(0, "this rank", "the test", std::chrono::seconds(60));

// This takes long for a large segment: a process that dies then leaves nothing behind.
TEST(SharedSegment, LosesItsNameBeforeItsSpaceIsReserved) {
  MpiRanks all = MpiRanks::of(MPI_COMM_WORLD, long_enough);
  std::string why;
  EXPECT_TRUE(make_shared_segment(all, 5000, long_enough, why)) << why;
  EXPECT_FALSE(had_a_file_while_reserving);
  EXPECT_EQ(all.leave(), MPI_SUCCESS);
}

TEST(SharedSegment, LeavesNoFileIfARankIsMissing) {
  const MpiRanks all = MpiRanks::of(MPI_COMM_WORLD, long_enough);
  if (all.size() > 1 && all.rank() == 0) {
    const MpiWait brief(0, "this rank", "the test", std::chrono::milliseconds(100));
    std::string why;
    EXPECT_THROW(static_cast<void>(make_shared_segment(all, 5000, brief, why)), TimeoutError);
    EXPECT_FALSE(has_left_a_file());
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace lockstep
