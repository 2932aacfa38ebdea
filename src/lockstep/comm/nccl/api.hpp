#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include <lockstep/comm/reduce_op.hpp>
#include <lockstep/tensor/device.hpp>
#include <lockstep/tensor/dtype.hpp>

struct CUstream_st;
struct ncclComm;

namespace lockstep {

/// The error of a failed NCCL call. Inside comm/nccl only: groups throw CommError.
struct NcclError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The results of NCCL's calls: its own numbers; unknown numbers are errors.
enum class NcclStatus : int { success = 0, in_progress = 7 };

/// ncclUniqueId.
using NcclId = std::array<char, 128>;

/// The functions of NCCL that a group calls, so that tests can replace them (tests/comm/nccl), for
/// devices of another type. Calls are as theirs of similar names; communicators are not blocking
/// (ncclConfig_t). Thread-safe as far as NCCL is: one thread at a time for each communicator, and
/// an open group belongs to its thread. All else about devices is DeviceRuntime's.
class NcclApi {
 public:
  using Comm = ncclComm*;
  using Stream = CUstream_st*;  // Stream::handle()

  virtual ~NcclApi() = default;

  /// The device type whose memory and streams it takes.
  [[nodiscard]] virtual DeviceType device_type() const noexcept = 0;

  [[nodiscard]] virtual NcclStatus make_id(NcclId& id) = 0;
  /// ncclCommInitRankConfig, on the device of this index. `comm` must live until async_status says
  /// that it is settled: NCCL may write to it until then.
  [[nodiscard]] virtual NcclStatus init(Comm& comm, int size, const NcclId& id, int rank,
                                        int device) = 0;
  /// True if ncclCommSplit is available (NCCL 2.18.1).
  [[nodiscard]] virtual bool can_split() const noexcept = 0;
  /// ncclCommSplit: `part` is the communicator of the ranks that give the same colour, in the order
  /// of their keys; a negative colour gets none. Written to until the parent is settled again.
  /// Nothing may be in flight on the parent.
  [[nodiscard]] virtual NcclStatus split(Comm parent, int colour, int key, Comm& part) = 0;
  /// ncclCommGetAsyncError: in_progress until the host's part of the call has completed.
  [[nodiscard]] virtual NcclStatus async_status(Comm comm) = 0;
  [[nodiscard]] virtual NcclStatus finalize(Comm comm) = 0;
  // These two may block for as long as the device does.
  /// finalize() first, where nobody has called it.
  [[nodiscard]] virtual NcclStatus destroy(Comm comm) = 0;
  [[nodiscard]] virtual NcclStatus abort(Comm comm) = 0;
  [[nodiscard]] virtual NcclStatus group_start() = 0;
  [[nodiscard]] virtual NcclStatus group_end() = 0;
  // Counts are elements of one rank's input (reduce_scatter: output). avg is the sum.
  [[nodiscard]] virtual NcclStatus all_reduce(const void* input, void* output, std::int64_t count,
                                              DType dtype, ReduceOp op, Comm comm,
                                              Stream stream) = 0;
  [[nodiscard]] virtual NcclStatus reduce(const void* input, void* output, std::int64_t count,
                                          DType dtype, ReduceOp op, int root, Comm comm,
                                          Stream stream) = 0;
  [[nodiscard]] virtual NcclStatus broadcast(const void* input, void* output, std::int64_t count,
                                             DType dtype, int root, Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual NcclStatus all_gather(const void* input, void* output, std::int64_t count,
                                              DType dtype, Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual NcclStatus reduce_scatter(const void* input, void* output,
                                                  std::int64_t count, DType dtype, ReduceOp op,
                                                  Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual NcclStatus send(const void* input, std::int64_t count, DType dtype,
                                        int peer, Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual NcclStatus receive(void* output, std::int64_t count, DType dtype, int peer,
                                           Comm comm, Stream stream) = 0;
  /// A status's meaning, and the communicator's last error, if it has one.
  [[nodiscard]] virtual std::string error_text(NcclStatus status, Comm comm) = 0;
};

/// The real ones. Throws InputError saying how to get them in builds without LOCKSTEP_ENABLE_NCCL.
[[nodiscard]] std::shared_ptr<NcclApi> nccl_library();

}  // namespace lockstep
