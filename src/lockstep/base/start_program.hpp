#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using Environment = std::vector<std::pair<std::string, std::string>>;  ///< names and values

/// Options of start_program().
struct ProgramStart {
  std::filesystem::path folder = {};  ///< working directory; empty: the current one
  Environment environment = {};       ///< beside this process's, or instead of its
  int output = -1, errors = -1;       ///< descriptors of its stdout and stderr; -1: /dev/null
  std::span<const int> kept = {};     ///< descriptors that stay open in it
};

/// Starts a program, found in PATH, in its own process group, with stdin from /dev/null. It gets
/// SIGTERM when the thread that started it ends. Copies no memory, as MPI's may not be copied.
/// Returns its process id (it exits with code 127 if there is no such program or folder); -1, and
/// errno, if the system cannot start a process.
[[nodiscard]] int start_program(const std::vector<std::string>& command, const ProgramStart& start);

}  // namespace lockstep
