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
  std::filesystem::path run_dir;
  Sizes sizes;
  double comm_timeout_s = 0;
};

/// Reads the command line and the deck as the program does, without its data and its task's tables.
/// Throws InputError for a bad command line or deck, for a command that trains nothing, and where
/// no allowed number of ranks exists.
[[nodiscard]] Assignment read_assignment(const Options& options);

}  // namespace lockstep::elastic
