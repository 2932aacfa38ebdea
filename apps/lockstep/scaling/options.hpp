#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::scaling {

/// What stays as it is while ranks are added: the global batch, or each rank's share of it.
enum class Mode : std::uint8_t { strong, weak };
[[nodiscard]] inline const char* words(Mode mode) noexcept {
  return mode == Mode::strong ? "strong" : "weak";
}

/// What `lockstep scaling` takes. Times in seconds.
struct Options {
  std::string deck;
  std::vector<std::string> overrides;
  std::string program;     ///< empty: the bundled one that the deck is for
  std::vector<int> ranks;  ///< of each size
  std::vector<int> nodes;  ///< of each size, or one for all; empty: as few as hold them
  Mode mode = Mode::strong;
  int repeats = 3;
  std::int64_t steps = 200;  ///< measured at each point
  std::int64_t warmup = 20;  ///< steps before them
  int threads = 0;           ///< cores a rank; 0: the deck's run.threads, the allocation's, or 1
  double limit = 600;        ///< of a point
  bool oversubscribe = false, benchmarks = true, dry_run = false;
  std::string script;    ///< print a job script for "slurm", "pbs" or "flux"
  std::string output;    ///< folder
  std::string members;   ///< file of hosts and slots; empty: Slurm's allocation or this machine
  std::string launcher;  ///< empty: srun in an allocation, else mpiexec
  std::vector<std::string> arguments;  ///< the command line, for the job script

  std::vector<int> predict;     ///< ranks to predict
  std::vector<int> fit;         ///< ranks to predict from; empty: those with cores of their own
  int ranks_a_node = 0;         ///< of predicted sizes; 0: as many as a node has room for
  std::vector<double> network;  ///< assumed between nodes: latency in us, GB/s; empty: measured
  bool try_best = false;        ///< measure the change that is predicted to help most
  [[nodiscard]] bool wants_prediction() const noexcept {
    return !predict.empty() || !fit.empty() || try_best;
  }

  std::vector<std::string> compare;  ///< two files or folders of studies; empty: make one
  std::string across;                ///< "deck", "version" or "machine": may differ between them
};

}  // namespace lockstep::scaling
