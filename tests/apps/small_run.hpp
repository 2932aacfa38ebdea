#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <support/process.hpp>

namespace lockstep::test {

/// Arguments for a run on generated data that takes a second or two: 4 epochs of 10 steps.
inline std::vector<std::string> small_run(const std::string& dir,
                                          std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{source("inputs/synthetic.toml"),
                                     "--set",
                                     "run.dir=\"" + dir + "\"",
                                     "--set",
                                     "train.epochs=4",
                                     "--set",
                                     "train.batch_size=60",
                                     "--set",
                                     "data.synthetic_samples=570",
                                     "--set",
                                     "data.synthetic_test_samples=130",
                                     "--set",
                                     "data.synthetic_image_size=18",
                                     "--set",
                                     "log.every_steps=2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

inline Finished classify(int ranks, const std::vector<std::string>& arguments) {
  return run(app(ranks, "apps/classify", arguments));
}

/// mpiexec and its flags, as --launcher takes them.
inline std::string launcher_of_tests() {
  const std::string words = std::getenv("LOCKSTEP_LAUNCHER");  // up to -n
  return words.substr(0, words.rfind(" -n"));
}

/// The output of a command that must succeed; otherwise the test fails.
inline std::string good(const Finished& finished) {
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  return finished.output;
}

inline Finished lockstep_utility(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{built("apps/lockstep")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command);
}

}  // namespace lockstep::test
