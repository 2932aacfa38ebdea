#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sweep {

/// Options of `lockstep sweep`.
struct Options {
  std::string deck;
  std::vector<std::string> overrides;
  std::string program;              ///< empty: the bundled one that the deck is for
  std::vector<std::string> grid;    ///< KEY=VALUE,VALUE,...
  std::vector<std::string> random;  ///< KEY=log:LOW:HIGH, uniform:LOW:HIGH or int:LOW:HIGH
  int draws = 0;                    ///< of --random, for each combination of the grid
  std::uint64_t seed = 0;           ///< of the draws
  std::string metric;               ///< of summary.json; empty: the deck's own
  std::string mode;                 ///< "min" or "max"; empty: by the metric
  std::string halving;              ///< "epochs:N" or "steps:N" of the first rung; empty: none
  int eta = 3;                      ///< one of eta trials of a rung is promoted
  int ranks = 1;                    ///< of each trial
  int parallel = 0;                 ///< trials at a time; 0: as many as have room
  int threads = 0;  ///< cores a rank; 0: the deck's run.threads, the allocation's, or 1
  bool oversubscribe = false, dry_run = false;
  int only = -1;         ///< runs this trial alone, as a task of an array job; -1: all
  std::string script;    ///< print a job script for "slurm"
  std::string output;    ///< folder
  std::string members;   ///< file of hosts and slots; empty: Slurm's allocation or this machine
  std::string launcher;  ///< empty: srun in an allocation, else mpiexec
  std::vector<std::string> arguments;  ///< the command line, for the job script
};

}  // namespace lockstep::sweep
