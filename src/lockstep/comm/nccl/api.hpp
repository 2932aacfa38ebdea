#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include <lockstep/comm/reduce_op.hpp>
#include <lockstep/tensor/dtype.hpp>

struct CUevent_st;
struct CUstream_st;
struct ncclComm;

namespace lockstep {

/// What a CUDA or NCCL call said when it failed. Inside comm/nccl only: groups throw CommError.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What NCCL's calls return: its own numbers, those that are none of these being errors.
enum class NcclStatus : int { success = 0, in_progress = 7 };

/// ncclUniqueId.
using NcclId = std::array<char, 128>;

/// The functions of NCCL, the CUDA runtime and cuBLAS that a group calls, so that tests can put
/// others in their place (tests/comm/nccl). Calls are as theirs of similar names; streams and
/// events belong to the thread's current device. Thread-safe as far as these are.
class NcclApi {
 public:
  using Comm = ncclComm*;
  using Stream = CUstream_st*;
  using Event = CUevent_st*;

  virtual ~NcclApi() = default;

  // CUDA's, which throw GpuError.
  [[nodiscard]] virtual int device_count() = 0;
  [[nodiscard]] virtual int current_device() = 0;
  virtual void set_device(int index) = 0;
  [[nodiscard]] virtual Stream
  make_stream() = 0;  ///< one that the default stream does not wait for
  virtual void destroy(Stream stream) noexcept = 0;
  [[nodiscard]] virtual Event make_event() = 0;
  virtual void destroy(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual void make_wait(Stream stream, Event event) = 0;
  [[nodiscard]] virtual bool is_over(Event event) = 0;
  /// Between host and devices; blocks the host until the bytes are there.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Multiplies `count` elements of a floating dtype, in f64 for f64, else in f32, rounded once.
  virtual void scale(void* data, std::int64_t count, DType dtype, double factor, Stream stream) = 0;

  // NCCL's.
  [[nodiscard]] virtual NcclStatus make_id(NcclId& id) = 0;
  /// ncclCommInitRankConfig with blocking = 0.
  [[nodiscard]] virtual NcclStatus init(Comm& comm, int size, const NcclId& id, int rank) = 0;
  /// ncclCommGetAsyncError: in_progress until what was called has been done by the host.
  [[nodiscard]] virtual NcclStatus async_status(Comm comm) = 0;
  [[nodiscard]] virtual NcclStatus finalize(Comm comm) = 0;
  /// These two may block for as long as the device does.
  [[nodiscard]] virtual NcclStatus destroy(Comm comm) = 0;
  [[nodiscard]] virtual NcclStatus abort(Comm comm) = 0;
  [[nodiscard]] virtual NcclStatus group_start() = 0;
  [[nodiscard]] virtual NcclStatus group_end() = 0;
  // Counts are elements of what one rank brings (reduce_scatter: gets). avg is the sum: see
  // scale().
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
  /// What a status means, and the communicator's last words, if it has any.
  [[nodiscard]] virtual std::string error_text(NcclStatus status, Comm comm) = 0;
};

/// The real ones. Throws InputError saying how to get them in builds without LOCKSTEP_ENABLE_NCCL.
[[nodiscard]] std::shared_ptr<NcclApi> nccl_library();

}  // namespace lockstep
