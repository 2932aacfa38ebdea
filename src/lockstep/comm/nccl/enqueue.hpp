#pragma once
#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {

/// True if NCCL reduces so: all but band, bor and bxor.
[[nodiscard]] bool nccl_reduces(const Operation& operation) noexcept;

/// Makes an operation's calls on `stream`, within an open ncclGroup: NCCL's own collective if it
/// has one, messages for gather, scatter, all_to_all and everything with counts. Throws NcclError.
void enqueue(NcclCommunicator& communicator, const Operation& operation, const Stream& stream,
             int rank, int size);

/// The work after NCCL's calls, on their stream: a mean is the sum, scaled in f32 (f64 for f64) and
/// rounded once. ncclAvg would multiply before it adds, by 1/size rounded to the tensor's dtype
/// (bf16, 3 ranks: 0.2 % too much).
void enqueue_mean(const Operation& operation, const Stream& stream, int size);

}  // namespace lockstep
