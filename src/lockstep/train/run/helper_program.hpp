#pragma once
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

namespace lockstep::train {

/// How a helper program (gnuplot, squeue) ended.
struct HelperEnd {
  enum class Kind : std::uint8_t {
    not_started,  ///< there is no such program
    late,         ///< it did not end in its time, or nobody wanted to know any more: killed
    failed,       ///< by its exit code, or a signal
    good
  };
  Kind kind = Kind::not_started;
  std::string output;  ///< the first 4 KiB that it wrote to stdout
};

/// Runs a program, found in PATH, in `folder` for at most `limit_s`, or until `stop` is requested.
/// It and what it starts are a process group of their own, which is killed then. Its errors are
/// thrown away. Local: for a moment, or a thread, for which no other rank waits.
[[nodiscard]] HelperEnd run_helper(const std::vector<std::string>& command,
                                   const std::filesystem::path& folder, double limit_s,
                                   const std::stop_token& stop = {});

}  // namespace lockstep::train
