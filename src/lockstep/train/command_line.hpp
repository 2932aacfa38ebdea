#pragma once
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// The command line of every training program.
struct CommandLine {
  std::string deck;
  std::vector<std::string> overrides;  ///< --set table.key=value
  bool resume = false;
  std::string resume_from;  ///< --resume=PATH; empty: the run folder's newest good checkpoint
  bool dry_run = false;
  bool check_gradients = false;
  bool describe = false;
  bool doctor = false, json = false;
  int ranks_as_threads = 0;  ///< 0: ranks are MPI's processes
  /// --help or --version: print this and end with 0.
  std::optional<std::string> text_only;

  /// These options inspect and print; nothing is trained.
  [[nodiscard]] bool trains() const {
    return !text_only && !dry_run && !check_gradients && !describe && !doctor;
  }
  /// The option that chooses the action, as written: "--dry-run". Empty: train from the beginning.
  [[nodiscard]] std::string verb() const;
};

/// Throws InputError, with a hint at --help, for anything unknown.
[[nodiscard]] CommandLine parse_command_line(const std::string& name,
                                             const std::string& description, int argc, char** argv);

}  // namespace lockstep::train
