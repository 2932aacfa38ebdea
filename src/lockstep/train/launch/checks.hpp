#pragma once
#include <cstddef>
#include <string>

#include <lockstep/train/launch/finding.hpp>
#include <lockstep/train/launch/launch.hpp>

// What may be wrong with a launch, one function a matter. Pure functions of what inspect_launch
// gathered (and, for a world of one, of the environment), so that every rank comes to the same
// findings without another message.

namespace lockstep::train {

/// How many processes the launcher of this one says that it started; 1 where there is none.
[[nodiscard]] int processes_started();

/// This process is alone in its MPI world although its launcher started several. An error. `mpi` is
/// the library's name, for the remedy.
[[nodiscard]] Findings check_world_of_one(const Launch& launch, const std::string& mpi);
/// Lockstep, the executable or the deck differ between ranks: errors. Processors that differ in
/// their instruction sets: a warning.
[[nodiscard]] Findings check_same_everywhere(const Launch& launch);
/// More ranks than cores in the affinity masks of a machine. A warning for each machine.
[[nodiscard]] Findings check_cores(const Launch& launch);
/// Ranks of one machine that compute on the same GPU. A warning for each GPU.
[[nodiscard]] Findings check_gpus(const Launch& launch);
/// MPI grants less than MPI_THREAD_MULTIPLE. A warning.
[[nodiscard]] Findings check_thread_level(const Launch& launch);
/// /dev/shm of a machine has no room for `bytes_a_rank` of each of its ranks. A warning for each.
[[nodiscard]] Findings check_shared_memory(const Launch& launch, std::size_t bytes_a_rank);

/// All that takes no more than what inspect_launch gathered, worst first: what every application
/// asks before it starts.
[[nodiscard]] Findings check_launch(const Launch& launch);

}  // namespace lockstep::train
