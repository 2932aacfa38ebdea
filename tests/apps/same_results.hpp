#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <lockstep/checkpoint/reader.hpp>
#include <support/process.hpp>

namespace lockstep::test {

inline void expect_same_bits(const StateDict& a, const StateDict& b) {
  ASSERT_GT(a.size(), 0U);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor, placement] : a) {
    const Tensor& other = b.at(name);
    ASSERT_EQ(tensor.bytes(), other.bytes()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), other.data(), tensor.bytes()), 0) << name;
  }
}

/// What metrics.jsonl says, but for times.
inline std::vector<nlohmann::json> results(const std::string& dir) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_file(dir + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    auto row = nlohmann::json::parse(line);
    for (const char* time : {"seconds", "samples_per_s", "slowest", "time_min_mean_max_s"})
      row.erase(time);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::test
