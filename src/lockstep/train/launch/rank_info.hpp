#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/tensor/device.hpp>

namespace lockstep::train {

/// Resources and software of one rank.
struct RankInfo {
  std::string host;
  int pid = 0;
  std::vector<int> cores;    ///< this process's affinity mask
  std::string gpu;           ///< PCI address of its device; empty: it computes on none
  std::string thread_level;  ///< "MPI_THREAD_MULTIPLE"; empty without MPI
  std::string version;       ///< Lockstep's version
  std::string program;       ///< hash of the executable's bytes
  std::string deck;          ///< hash of the resolved deck; may be empty
  std::string processor;     ///< instruction sets of interest
  double shm_mib = 0;        ///< size of /dev/shm
  double shm_free_mib = 0;   ///< free space of /dev/shm

  /// Argument of packed().
  static auto fields(auto& self) {
    return std::tie(self.host, self.pid, self.cores, self.gpu, self.thread_level, self.version,
                    self.program, self.deck, self.processor, self.shm_mib, self.shm_free_mib);
  }
};

/// Information on this process, which computes on `device`. Local; a few milliseconds, for the hash
/// of the executable.
[[nodiscard]] RankInfo local_rank_info(const std::string& deck_hash, Device device = {});

/// "0-3,8": the cores of a mask in taskset -c's notation.
[[nodiscard]] std::string core_list(const std::vector<int>& cores);

}  // namespace lockstep::train
