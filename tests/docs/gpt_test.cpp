#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <support/process.hpp>

// docs/guide/gpt.md: the commands of its first block run in order, in one folder, with this build
// in place of build/release, a smaller model and fewer steps than the deck's.

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* smaller =
    " --set data.train_limit=800 --set data.test_limit=64 --set model.depth=1 --set model.width=48"
    " --set train.epochs=1 --set schedule.warmup=5";

TEST(GptPage, WhatItShowsIsWhatHappens) {
  if (run({"sh", "-c", "command -v bible"}).exit_code != 0)
    GTEST_SKIP() << "no program bible here, whose text is to be learnt (Debian: bible-kjv)";
  const ScratchFolder scratch;
  fs::create_directory_symlink(source("inputs"), scratch.file("inputs"));
  fs::create_directory(scratch.file("build"));
  fs::create_directory_symlink(built(""), scratch.file("build/release"));
  const std::string page = read_file(source("docs/guide/gpt.md"));
  std::smatch block;
  ASSERT_TRUE(std::regex_search(page, block, std::regex("```sh\n([^`]*)```")));
  std::istringstream lines(block[1].str());
  int commands = 0;
  std::string said;
  for (std::string line; std::getline(lines, line); ++commands) {
    const bool trains = line.find("gpt train") != std::string::npos;
    const Finished finished = run(
        {"sh", "-c", "cd " + scratch.path() + " && " + line + (trains ? smaller : "")}, {}, 120);
    EXPECT_EQ(finished.exit_code, 0) << line << "\n" << finished.output;
    said += finished.output;
  }
  EXPECT_EQ(commands, 6);
  EXPECT_NE(said.find("training and 413785 test tokens, vocabulary of 63 (characters)"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("\nIn the beginning"), std::string::npos) << said;
  EXPECT_NE(said.find("\nperplexity "), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep::test
