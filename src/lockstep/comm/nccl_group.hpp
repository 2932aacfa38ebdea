#pragma once
#include <memory>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A group over the ranks of `control` (an MPI group) whose operations run on their GPUs, on a
/// stream of the group's own, behind what the current stream has been given. Tensors must lie on
/// `device`. Work::wait() makes the current stream wait, Work::synchronize() the host.
///
/// `control` carries what NCCL does not: the unique ID, the contract check, barriers, and band, bor
/// and bxor (through the host). NCCL knows neither tags nor any_source: messages of a pair of ranks
/// arrive in the order of the calls, tags other than 0 and any_source are ShapeErrors, and messages
/// that cross each other belong in one batch_isend_irecv.
///
/// Collective over `control`, which it keeps. Throws InputError (exit code 2) saying which rank has
/// no such GPU, on every rank; TimeoutError if NCCL is not ready by the deadline; CommError if NCCL
/// fails.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> control,
                                                            Device device,
                                                            const GroupOptions& options = {});

}  // namespace lockstep
