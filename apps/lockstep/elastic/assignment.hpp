#pragma once
// The program to run: its command line and deck.
#include <filesystem>
#include <string>
#include <vector>

#include "options.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

struct Assignment {
  std::string program;             ///< path given to the launcher
  std::vector<std::string> first;  ///< arguments of the first start, as given
  std::vector<std::string> later;  ///< the same with a plain --resume
  bool names_checkpoint = false;   ///< --resume=FILE
  /// No deck tells of it: it gets the same arguments at each start, and finds its checkpoints
  /// itself (train::StopRequest).
  bool own_loop = false;
  std::filesystem::path run_dir;  ///< of a program with its own loop: the supervisor's folder
  Sizes sizes;
  /// Why not every number of ranks from --min to --max can be had; empty if it can.
  std::string condition;
  double comm_timeout_s = 0;
};

/// Where the command names a deck (*.toml): reads command line and deck as the program will,
/// without its data and without the tables of its task. Throws InputError: a bad one, one that
/// trains nothing, sizes that cannot be had.
[[nodiscard]] Assignment read_assignment(const Options& options);

}  // namespace lockstep::elastic
