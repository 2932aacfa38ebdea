#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

/// What one rank was given, and what it runs.
struct Seat {
  std::string host;
  int pid = 0;
  std::vector<int> cores;    ///< this process's affinity mask
  std::string gpu;           ///< PCI address of the device it computes on; empty: none
  std::string thread_level;  ///< "MPI_THREAD_MULTIPLE"; empty without MPI
  std::string version;       ///< Lockstep's
  std::string program;       ///< hash of the executable's bytes
  std::string deck;          ///< hash of the resolved deck; may be empty
  std::string processor;     ///< instruction sets of interest
  double shm_mib = 0;        ///< size of /dev/shm
  double shm_free_mib = 0;   ///< of which is free
};

/// This process's. Local; a few milliseconds, for the hash of the executable.
[[nodiscard]] Seat take_seat(const std::string& deck_hash);

/// To and from bytes that travel between ranks.
[[nodiscard]] std::string to_bytes(const Seat& seat);
[[nodiscard]] Seat seat_from(const std::string& bytes);

/// "0-3,8": the cores of a mask, as taskset -c takes them.
[[nodiscard]] std::string core_list(const std::vector<int>& cores);

}  // namespace lockstep::train
