#pragma once
// What tests of `lockstep elastic` look at.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <support/process.hpp>

namespace lockstep::test {

/// A scratch folder with a supervisor's folder `run` in it.
class Supervised : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;
  using Json = nlohmann::json;

  [[nodiscard]] std::string dir() const { return scratch_.file("run"); }
  [[nodiscard]] static std::string launcher() {
    std::string words = std::getenv("LOCKSTEP_LAUNCHER");  // mpiexec and its flags, up to -n
    return words.substr(0, words.rfind(" -n"));
  }
  /// Every process of a test names its scratch folder: those there are, one a line.
  [[nodiscard]] std::string left() const {
    std::string processes;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      std::ostringstream words;
      words << file.rdbuf();
      if (words.str().find(scratch_.path()) != std::string::npos)
        processes += entry.path().string() + " " + words.str() + "\n";
    }
    return processes;
  }
  /// After so many seconds at the latest.
  void expect_nothing_left(double within_s = 5) const {
    const auto now = std::chrono::steady_clock::now;
    const auto end = now() + std::chrono::duration<double>(within_s);
    while (!left().empty() && now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(left(), "");
  }
  [[nodiscard]] std::vector<Json> history(const std::string& kind) const {
    std::vector<Json> found;
    std::istringstream lines(read_file(dir() + "/elastic.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto event = Json::parse(line);
      if (event.at("kind") == kind) found.push_back(std::move(event));
    }
    return found;
  }
  /// One field of all events of a kind, in order.
  [[nodiscard]] Json all(const std::string& kind, const std::string& field) const {
    Json values = Json::array();
    for (const Json& event : history(kind)) values.push_back(event.at(field));
    return values;
  }

  ScratchFolder scratch_;
  std::string launcher_ = launcher();
};

}  // namespace lockstep::test
