#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include <lockstep/comm/mpi/ranks.hpp>
#include <lockstep/comm/node/segment.hpp>

namespace lockstep {

/// The folder of shared segments' files.
inline constexpr const char* shared_memory_folder = "/dev/shm";

/// A segment that the ranks of `node`, processes of one machine, share; its parts, of at least
/// `bytes`, which is equal on all ranks, are first touched by their owners. It is an unnamed file
/// in /dev/shm, so nothing is left behind however a process ends. Its pages are reserved before the
/// first write, so a /dev/shm that is too small gives an error message and not a SIGBUS (which
/// MPI_Win_allocate_shared gives at the first touch). Collective over `node`. nullptr on every rank
/// if any of them cannot allocate it; `why` then names the shortage and the machine.
[[nodiscard]] std::shared_ptr<Segment> make_shared_segment(const MpiRanks& node, std::size_t bytes,
                                                           const MpiWait& wait, std::string& why);

}  // namespace lockstep
