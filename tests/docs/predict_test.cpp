#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <support/process.hpp>
#include <vector>

// docs/guide/predict.md: its blocks run in order, in one folder, with this build in place of
// build/release.

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

struct Block {
  std::string kind, text;
};

std::vector<Block> blocks(const std::string& page) {
  std::vector<Block> all;
  const std::regex block("```([a-z]+)\n([^`]*)```");
  const std::string text = read_file(source(page));
  for (std::sregex_iterator at(text.begin(), text.end(), block), end; at != end; ++at)
    all.push_back({(*at)[1], (*at)[2]});
  return all;
}

bool shows(const std::string& page, const std::string& example) {
  return read_file(source(page))
             .find("```cpp\n" + read_file(source("docs/examples/" + example + ".cpp")) + "```") !=
         std::string::npos;
}

TEST(PredictPage, WhatItShowsIsWhatHappens) {
  const ScratchFolder scratch;
  fs::create_directory_symlink(source("inputs"), scratch.file("inputs"));
  fs::create_directory(scratch.file("build"));
  fs::create_directory_symlink(built(""), scratch.file("build/release"));
  const auto here = [&](const std::string& command) {
    return run({"sh", "-c", "cd " + scratch.path() + " && " + command}, {}, 120);
  };
  std::string python;
  int commands = 0;
  for (const auto& [kind, text] : blocks("docs/guide/predict.md")) {
    if (kind == "python") python += text;
    if (kind != "sh") continue;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line); ++commands) {
      const Finished finished = here(line);
      EXPECT_EQ(finished.exit_code, 0) << line << "\n" << finished.output;
    }
  }
  EXPECT_EQ(commands, 5);

  ASSERT_TRUE(shows("docs/guide/predict.md", "predict"));
  const Finished predicted = here("build/release/docs/examples/predict runs/heat");
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  EXPECT_TRUE(predicted.says("parameters -> field\nin the middle ")) << predicted.output;
  ASSERT_TRUE(shows("docs/guide/predict.md", "predict_own_model"));
  const Finished own = here("build/release/docs/examples/predict_own_model drag.h5");
  ASSERT_EQ(own.exit_code, 0) << own.output;
  EXPECT_EQ(own.output, "drag of one sample: 1 number\n");

  ASSERT_TRUE(shows("docs/guide/checkpoints.md", "read_checkpoint"));
  const Finished read = here("build/release/docs/examples/read_checkpoint runs/heat");
  ASSERT_EQ(read.exit_code, 0) << read.output;
  EXPECT_TRUE(read.says("step 800, epoch 20\n")) << read.output;
  EXPECT_TRUE(read.says("fc1.weight [128, 4]\n")) << read.output;
  EXPECT_TRUE(read.says("takes [4]\n")) << read.output;

  if (run({"/usr/bin/python3", "-c", "import h5py, numpy, tomllib"}).exit_code != 0)
    GTEST_SKIP() << "python3 has no h5py or numpy (Debian: python3-h5py)";
  scratch.write("page.py", python);
  const Finished in_python = here("/usr/bin/python3 page.py");
  EXPECT_EQ(in_python.exit_code, 0) << in_python.output;
  EXPECT_TRUE(in_python.says("(500, 16, 16)")) << in_python.output;
}

}  // namespace
}  // namespace lockstep::test
