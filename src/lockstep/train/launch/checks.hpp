#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include <lockstep/train/launch/finding.hpp>
#include <lockstep/train/launch/launch.hpp>

// Checks of a launch, one function per subject. Pure functions of the result of inspect_launch
// (and, for a world of one, of the environment), so every rank reaches the same findings without
// another message.

namespace lockstep::train {

/// The number of processes that this one's launcher reports; 1 without a launcher.
[[nodiscard]] int processes_started();

/// This process is alone in its MPI world although its launcher started several. An error. `mpi`:
/// the library's name, for the remedy.
[[nodiscard]] Findings check_world_of_one(const Launch& launch, const std::string& mpi);
/// Lockstep, the executable or the deck differ between ranks: errors. Processors that differ in
/// their instruction sets: a warning.
[[nodiscard]] Findings check_same_everywhere(const Launch& launch);
/// More ranks than cores in the affinity masks of a machine. A warning for each machine.
[[nodiscard]] Findings check_cores(const Launch& launch);
/// Ranks of one machine that share a GPU. A warning for each GPU.
[[nodiscard]] Findings check_gpus(const Launch& launch);
/// MPI grants less than MPI_THREAD_MULTIPLE. A warning.
[[nodiscard]] Findings check_thread_level(const Launch& launch);
/// /dev/shm of a machine lacks room for `bytes_a_rank` for each of its ranks. A warning for each
/// machine.
[[nodiscard]] Findings check_shared_memory(const Launch& launch, std::size_t bytes_a_rank);

/// A step of `batch_size` samples, which `parts` of the launch's ranks share out, leaves ranks
/// without a sample. A warning.
[[nodiscard]] Findings check_batch_size(std::int64_t batch_size, std::int64_t parts);

/// All checks that need only the result of inspect_launch, worst findings first: every application
/// runs them before it starts.
[[nodiscard]] Findings check_launch(const Launch& launch);

}  // namespace lockstep::train
