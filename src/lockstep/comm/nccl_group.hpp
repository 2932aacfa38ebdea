#pragma once
#include <memory>

#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A group over the ranks of `control` (an MPI group). NCCL carries out its operations on device
/// tensors, on streams of its own, after the work already on the current stream. Such tensors lie
/// on `device`. Work::wait() makes the current stream wait, once every rank has made the same
/// call; Work::synchronize() and barrier() block the host until the device is done. After a launch
/// the process's engine watches the deadline, whether or not a thread waits. If a peer is gone, it
/// makes NCCL abort, so the call that reads the result ends; the data read is invalid, and the next
/// call throws. The collectives of all groups of a device are launched in one order, the same on
/// every rank, unless their contract is off. With Contract::late they are launched at once, in the
/// order of this rank's calls, and compared meanwhile: ranks must call the collectives of all
/// groups of the device in one order. wait() may return before a mismatch is known; synchronize(),
/// barrier() and close() do not. All groups of a device are late, or none.
///
/// `control` carries everything that NCCL does not: the unique ID, the contract check, operations
/// on host tensors, and band, bor and bxor of device tensors (copied; they block the host). Both
/// are one order of calls. The new group has its global ranks; a rank that is not in `control`
/// (new_group) gets `control` back. Sums of f16 and bf16 are rounded to the dtype at every step; a
/// mean is the sum times 1/size(). On the device messages and collectives run in the order of the
/// calls; messages that cross each other belong in one batch_isend_irecv; tags other than 0 and
/// any_source are ShapeErrors.
///
/// If it is destroyed without close(), operations in flight run to their end; the communicator is
/// freed when the next such group is made or destroyed. Collective over `control`, which it keeps
/// and closes. Throws InputError (exit code 2), on every rank, saying which has no such GPU, and in
/// builds without LOCKSTEP_ENABLE_NCCL; TimeoutError if NCCL is not ready by the deadline;
/// CommError if NCCL fails.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> control,
                                                            Device device,
                                                            const GroupOptions& options = {});

/// Whether this build has the nccl backend (LOCKSTEP_ENABLE_NCCL).
[[nodiscard]] bool has_nccl() noexcept;

/// The group for models on `device`, this rank's, over the ranks of `control`: make_nccl_group's
/// for CUDA, which takes host tensors too; else `control` itself, which moves a device's tensors
/// through pinned memory. CUDA devices get `control` back too in a build without NCCL, and if two
/// ranks share a GPU, which NCCL does not allow: rank 0 logs a warning. Throws InputError, on every
/// rank, if ranks have devices of two kinds. Collective over `control`.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_group(std::shared_ptr<ProcessGroup> control,
                                                       Device device,
                                                       const GroupOptions& options = {});

}  // namespace lockstep
