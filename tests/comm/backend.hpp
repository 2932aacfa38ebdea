#pragma once
#include <functional>

#include <lockstep/comm/process_group.hpp>

namespace lockstep::test {

/// Runs `claim` on every rank of the backend that this program was linked with: mpi over all ranks
/// that mpiexec started, threads in groups of 1, 2, 3 and 4. The group is closed afterwards.
void on_every_group(const std::function<void(ProcessGroup&)>& claim);

}  // namespace lockstep::test
