#pragma once
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <support/process.hpp>

namespace lockstep::test {

/// Whether summary.json says that the run is complete.
inline bool completed(const std::string& dir) {
  return nlohmann::json::parse(read_file(dir + "/summary.json")).at("completed").get<bool>();
}

/// Contents of metrics.jsonl without times, and without the plan that a later start may change.
inline std::vector<nlohmann::json> results(const std::string& dir) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_file(dir + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    auto row = nlohmann::json::parse(line);
    for (const char* time : {"total_steps", "seconds", "samples_per_s", "tokens_per_s",
                             "flops_per_s", "of_peak", "slowest", "time_min_mean_max_s"})
      row.erase(time);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::test
