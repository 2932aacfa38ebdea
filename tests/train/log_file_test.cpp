#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>

#include <lockstep/train/report/log_file.hpp>

#include "../support/process.hpp"

namespace lockstep::test {
namespace {

using train::LogFile;

/// While it lives, no file of this process grows beyond `bytes`: a write past them fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

/// The text after time and prefix in each line.
std::string levels_and_texts(const std::string& file) {
  std::ifstream in(file);
  std::string all;
  for (std::string line; std::getline(in, line);)
    all += line.substr(std::min(line.size(), 24UL)) + '\n';
  return all;
}

TEST(LogFile, IsWholeAfterWritesThatFailedAndWarnsOnceOfEachTimeWithoutRoom) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("log.txt");
  int warnings = 0;
  std::string expected;
  {
    LogFile log(file, "", [&](const std::string& why) {
      ++warnings;
      EXPECT_NE(why.find("cannot write " + file), std::string::npos) << why;
    });
    const auto write = [&](const std::string& text) {
      log.write(LogLevel::info, text);
      expected += "info " + text + "\n";
    };
    write("before");
    for (int time = 1; time <= 2; ++time) {
      {
        const FileSizeLimit limit(70);  // within a line
        write("first line that finds no room");
        write("second");
      }
      EXPECT_EQ(warnings, time);
      write("after");
      EXPECT_EQ(levels_and_texts(file), expected);
    }
  }
  EXPECT_EQ(levels_and_texts(file), expected);
}

TEST(LogFile, DropsWaitingLinesBeyondAMebibyteAndGoesOn) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("log.txt");
  LogFile log(file, "", [](const std::string&) {});
  {
    const FileSizeLimit limit(0);
    log.write(LogLevel::info, std::string(std::size_t{1} << 20U, 'x'));
    log.write(LogLevel::info, "kept");
  }
  log.write(LogLevel::warning, "written");
  EXPECT_EQ(levels_and_texts(file), "info kept\nwarning written\n");
}

TEST(LogFile, GoesOnBehindALineThatAKilledProcessLeftUnfinished) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("log.txt");
  std::ofstream(file) << "2026-11-27 13:22:46.035 info half a li";
  LogFile(file, "", [](const std::string&) {}).write(LogLevel::error, "whole");
  EXPECT_EQ(levels_and_texts(file), "info half a li\nerror whole\n");
}

}  // namespace
}  // namespace lockstep::test
