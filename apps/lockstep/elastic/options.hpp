#pragma once
#include <string>
#include <vector>

namespace lockstep::elastic {

/// Options of `lockstep elastic`. Times in seconds.
struct Options {
  int min = 1, max = 0;
  int restarts = 5;
  double within = 3600;  ///< the window of `restarts`; 0: all of them
  double rejoin = 60;    ///< time for which a lost slot or host is not used
  double settle = 5;     ///< a change of members counts after this time
  double wait = 600;     ///< maximum time to wait for `min` slots
  double hang_after =
      0;  ///< time without a sign of life after which a run is ended; 0: comm.timeout + 60
  std::string members;   ///< file of hosts and slots; empty: Slurm's allocation or this machine
  std::string launcher;  ///< empty: srun in an allocation, else mpiexec
  std::vector<std::string> command;  ///< program, deck and its options
};

}  // namespace lockstep::elastic
