#pragma once
#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {

/// True if NCCL reduces so: all but band, bor and bxor.
[[nodiscard]] bool nccl_reduces(const Operation& operation) noexcept;

/// Enqueues an operation on the communicator's stream: NCCL's own collective where it has one,
/// grouped messages for gather, scatter, all_to_all and everything with counts. Throws as settle().
void enqueue(NcclCommunicator& communicator, const Operation& operation, int rank, int size);

}  // namespace lockstep
