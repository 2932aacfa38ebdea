#include <lockstep/io/file.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// An empty folder of this test's own, removed at the end.
class FileTest : public testing::Test {
 protected:
  FileTest()
      : folder(fs::path(testing::TempDir()) /
               ("lockstep-io-" + std::to_string(::getpid()) + "-" +
                testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  ~FileTest() override { fs::remove_all(folder); }
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(folder), {});
  }

  static std::string text_of(const fs::path& path) {
    const File file = File::open_for_reading(path);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read_at(0, text.data(), file.size());
    return text;
  }

  fs::path folder;
};

using FileIo = FileTest;
using AtomicPublish = FileTest;
using Folder = FileTest;

TEST_F(FileIo, BytesComeBackFromWhereTheyWereWritten) {
  const File file = File::create(folder / "a");
  file.write_at(3'000'000'000, "abc", 3);  // beyond 2^31, sparse
  EXPECT_EQ(file.size(), 3'000'000'003);
  std::string back(3, ' ');
  file.read_at(3'000'000'000, back.data(), 3);
  EXPECT_EQ(back, "abc");
}

TEST_F(FileIo, ReadingBeyondTheEndIsAnErrorThatNamesTheFileAndTheByte) {
  const File file = File::create(folder / "a");
  file.write_at(0, "abc", 3);
  std::string back(5, ' ');
  try {
    file.read_at(0, back.data(), 5);
    FAIL() << "read 5 bytes of 3";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("/a: it ends at byte 3, 2 bytes too early"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(FileIo, AMissingFileAndAFolderAreErrorsWithTheSystemsReason) {
  const auto reason = [](const fs::path& path) {
    try {
      static_cast<void>(File::open_for_reading(path));
    } catch (const FileError& e) {
      return e.error_number();
    }
    return 0;
  };
  EXPECT_EQ(reason(folder / "none"), ENOENT);
  EXPECT_EQ(reason(folder), EISDIR);
}

TEST_F(FileIo, AFullDiskIsAnErrorWithTheRemedy) {
  EXPECT_STREQ(FileError("write", "a.h5", ENOSPC).what(),
               "cannot write a.h5: No space left on device: free space there, or use another file "
               "system");
}

TEST_F(AtomicPublish, NothingIsThereUnderTheNameBeforePublish) {
  AtomicFile file(folder / "sub" / "a");
  file.file().write_at(0, "new", 3);
  EXPECT_FALSE(fs::exists(folder / "sub" / "a"));
  EXPECT_TRUE(fs::exists(file.temporary_path()));
  file.publish();
  EXPECT_EQ(text_of(folder / "sub" / "a"), "new");
  EXPECT_FALSE(fs::exists(file.temporary_path()));
}

TEST_F(AtomicPublish, ASignalThatEndsTheProcessLeavesNoTemporaryFile) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      remove_unfinished_files_on_signals();
      AtomicFile published(folder / "whole");
      const AtomicFile unfinished(folder / "half");
      published.publish();
      unfinished.file().write_at(0, "half", 4);
      std::raise(signal);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << "it ends as without";
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  }
  EXPECT_TRUE(fs::exists(folder / "whole"));
}

TEST_F(AtomicPublish, OnlyLeftoversOfKilledProcessesAreRemoved) {
  for (const char* name : {"a.4711-0.partial", "a.partial", "ab.1-0.partial", "a", "b"})
    AtomicFile(folder / name).publish();
  remove_unfinished_files_of(folder / "a");
  std::set<std::string> left;
  for (const auto& file : fs::directory_iterator(folder))
    left.insert(file.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"a", "ab.1-0.partial", "b"}));
}

TEST_F(AtomicPublish, GivingUpLeavesTheOldFileAndNoTemporaryOne) {
  {
    AtomicFile file(folder / "a");
    file.file().write_at(0, "old", 3);
    file.publish();
  }
  {
    AtomicFile file(folder / "a");
    file.file().write_at(0, "half", 4);
  }
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(AtomicPublish, ANameThatBecomesAFolderIsRefusedAndTheTemporaryFileRemoved) {
  {
    AtomicFile file(folder / "a");
    fs::create_directories(folder / "a" / "b");
    EXPECT_THROW(file.publish(), FileError);
  }
  EXPECT_TRUE(fs::exists(folder / "a" / "b"));
  EXPECT_EQ(entries(), 1);
}

TEST_F(AtomicPublish, SymbolicLinksAreNeitherReplacedNorWrittenTo) {
  const fs::path file = folder / "a";
  std::ofstream(folder / "target") << "theirs";
  for (const std::string target : {"target", "nowhere"}) {
    fs::create_symlink(target, file);
    EXPECT_THROW(AtomicFile{file}, FileError);
    EXPECT_TRUE(fs::is_symlink(file));
    EXPECT_THROW(File::create_new(file), FileError) << "as under a temporary name";
    fs::remove(file);
  }
  EXPECT_EQ(text_of(folder / "target"), "theirs");
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
}

TEST_F(FileTest, IrregularFilesAreRefusedWithoutBlocking) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const fs::path& special : {folder / "pipe", folder, fs::path("/dev/zero"),
                                  fs::path("/dev/null"), fs::path("/dev/tty")})
    EXPECT_THROW(static_cast<void>(File::open_for_reading(special)), FileError) << special;
}

TEST_F(AtomicPublish, PipesAndDevicesAreNeitherReplacedNorWrittenTo) {
  const fs::path file = folder / "a";
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THROW(AtomicFile{file}, FileError);
  EXPECT_TRUE(fs::is_fifo(file));
  EXPECT_EQ(entries(), 1);
}

TEST_F(AtomicPublish, AFolderIsRefusedBeforeAnythingIsWritten) {
  const int before = static_cast<int>(entries());
  for (const fs::path& place : {folder, folder / "", folder / "new" / ""}) {
    EXPECT_THROW(AtomicFile{place}, FileError) << place;
    EXPECT_EQ(entries(), before) << place;
  }
}

TEST_F(AtomicPublish, OfTwoWritersEachPublishesItsOwnBytes) {
  AtomicFile first(folder / "a"), second(folder / "a");
  first.file().write_at(0, "first", 5);
  second.file().write_at(0, "2nd", 3);
  first.publish();
  EXPECT_EQ(text_of(folder / "a"), "first");
  second.publish();
  EXPECT_EQ(text_of(folder / "a"), "2nd");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Folder, AWritableOneIsMadeAndLeftEmpty) {
  EXPECT_EQ(why_not_writable(folder / "x" / "y"), "");
  EXPECT_TRUE(fs::is_empty(folder / "x" / "y"));
}

TEST_F(Folder, OneBelowAFileCannotBeWrittenAndTheSentenceSaysSo) {
  static_cast<void>(File::create(folder / "file"));
  EXPECT_EQ(why_not_writable(folder / "file" / "x"),
            "folder " + (folder / "file" / "x").string() + " cannot be written: Not a directory");
}

TEST_F(Folder, FreeBytesOfAFolderYetToBeMadeAreThoseOfItsParent) {
  EXPECT_GT(available_bytes(folder / "a" / "b"), 0);
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(17), "17 bytes");
  EXPECT_EQ(format_bytes(4 << 20), "4.0 MiB");
  EXPECT_EQ(format_bytes(std::int64_t{3} << 40), "3.0 TiB");
}

}  // namespace
}  // namespace lockstep
