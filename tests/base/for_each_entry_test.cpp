#include <lockstep/base/for_each_entry.hpp>

#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <support/process.hpp>
#include <system_error>

namespace {

thread_local int entries_until_failure = -1;  // -1: none fails

}  // namespace

// Replaces the C library's in the whole program: the file server stops answering.
extern "C" dirent* readdir(DIR* folder) {
  static auto* const next = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  if (entries_until_failure == 0) {
    errno = ESTALE;
    return nullptr;
  }
  if (entries_until_failure > 0) --entries_until_failure;
  return next(folder);
}

namespace lockstep {
namespace {

TEST(ForEachEntry, SeesEachOnceAndReturnsWhyItEndedEarly) {
  const test::ScratchFolder scratch;
  for (const char* name : {"a", "b", "c"}) scratch.write(name, "");
  std::set<std::string> found;
  const auto take = [&](const std::filesystem::directory_entry& entry) {
    EXPECT_TRUE(found.insert(entry.path().filename().string()).second);
  };
  std::error_code error = std::make_error_code(std::errc::io_error);
  for_each_entry(scratch.path(), take, error);
  EXPECT_FALSE(error);
  EXPECT_EQ(found, (std::set<std::string>{"a", "b", "c"}));

  for_each_entry(scratch.file("none"), take, error);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);

  found.clear();
  entries_until_failure = 4;  // "." and ".." are two
  EXPECT_NO_THROW(for_each_entry(scratch.path(), take, error));
  entries_until_failure = -1;
  EXPECT_EQ(error.value(), ESTALE);
  EXPECT_LE(found.size(), 2U);
}

}  // namespace
}  // namespace lockstep
