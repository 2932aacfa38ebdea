#pragma once
#include <string>
#include <vector>

namespace lockstep::elastic {

/// Options of `lockstep elastic`. Times in seconds.
struct Options {
  int min = 1, max = 0;
  int restarts = 5;
  double within = 3600;      ///< the window of `restarts`; 0: all of them
  double rejoin = 60;        ///< for so long a lost slot or host is not used
  double settle = 5;         ///< a change of members counts once it has stayed so long
  double wait = 600;         ///< for `min` slots, at most
  double hang_after = 0;     ///< without a sign of life; 0: comm.timeout of the deck and a minute
  double save_within = 600;  ///< ranks that were asked to save and end are killed after so long
  /// Where elastic.jsonl is written for a program with a loop of its own; empty: it is one where
  /// the command names no deck, and this is runs/PROGRAM.
  std::string dir;
  /// Of such a program: numbers of ranks that do not divide this are left out; 0: none are.
  int shards = 0;
  std::string members;   ///< file of hosts and slots; empty: Slurm's allocation or this machine
  std::string launcher;  ///< empty: srun in an allocation, else mpiexec
  std::vector<std::string> command;  ///< program, and its arguments
};

}  // namespace lockstep::elastic
