// A test cannot crash the machine. But the system calls show that everything is on stable storage
// in time. They are recorded here, and passed on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/io/atomic_file.hpp>

namespace {

std::vector<std::string> calls;  // "fsync a.4711-0.partial"

std::string name_of(const std::filesystem::path& path) { return path.filename().string(); }

}  // namespace

// These definitions replace the C library's in the whole program.
extern "C" int fsync(int descriptor) {
  const auto path = "/proc/self/fd/" + std::to_string(descriptor);
  calls.push_back("fsync " + name_of(std::filesystem::read_symlink(path)));
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  calls.push_back("rename " + name_of(from) + " " + name_of(to));
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace lockstep {
namespace {

TEST(PublishOrder, BytesAreOnStableStorageBeforeTheNameAndTheNameBeforeItReturns) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("lockstep-publish-" + std::to_string(getpid()));
  AtomicFile file(folder / "a");
  file.file().write_at(0, "abc", 3);
  const std::string temporary = name_of(file.temporary_path());
  calls.clear();
  file.publish();
  EXPECT_EQ(calls, (std::vector<std::string>{"fsync " + temporary, "rename " + temporary + " a",
                                             "fsync " + folder.filename().string()}));
  std::filesystem::remove_all(folder);
}

TEST(PublishOrder, WhatOutlastsItsProcessAloneWaitsForNoDisk) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("lockstep-publish-" + std::to_string(getpid()));
  AtomicFile file(folder / "a");
  const std::string temporary = name_of(file.temporary_path());
  calls.clear();
  file.publish(Durability::end_of_process);
  EXPECT_EQ(calls, std::vector<std::string>{"rename " + temporary + " a"});
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
