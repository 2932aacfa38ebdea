// The only file that calls NCCL, the CUDA runtime and cuBLAS.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstring>
#include <map>
#include <mutex>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/comm/nccl_group.hpp>

namespace lockstep {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
static_assert(static_cast<int>(NcclStatus::success) == ncclSuccess);
static_assert(static_cast<int>(NcclStatus::in_progress) == ncclInProgress);

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw GpuError(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw GpuError(fmt::format("{}: {}", call, cublasGetStatusString(status)));
}

NcclStatus status_of(ncclResult_t result) { return static_cast<NcclStatus>(result); }

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
    case DType::boolean:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(ReduceOp op, DType dtype) {
  const bool logical = dtype == DType::boolean;  // elements are 0 or 1
  switch (op) {
    case ReduceOp::product:
      return logical ? ncclMin : ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    default:
      return logical ? ncclMax : ncclSum;
  }
}

cudaDataType_t cuda_type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

class NcclLibrary final : public NcclApi {
 public:
  int device_count() override {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    return count;
  }
  int current_device() override {
    int index = 0;
    check(cudaGetDevice(&index), "cudaGetDevice");
    return index;
  }
  void set_device(int index) override { check(cudaSetDevice(index), "cudaSetDevice"); }
  Stream make_stream() override {
    Stream stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  void destroy(Stream stream) noexcept override { static_cast<void>(cudaStreamDestroy(stream)); }
  Event make_event() override {
    Event event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event;
  }
  void destroy(Event event) noexcept override { static_cast<void>(cudaEventDestroy(event)); }
  void record(Event event, Stream stream) override {
    check(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void make_wait(Stream stream, Event event) override {
    check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  bool is_over(Event event) override {
    const cudaError_t status = cudaEventQuery(event);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
  void scale(void* data, std::int64_t count, DType dtype, double factor, Stream stream) override {
    const auto type = cuda_type_of(dtype),
               computed_in = dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
    const auto single = static_cast<float>(factor);
    const void* alpha = dtype == DType::f64 ? static_cast<const void*>(&factor) : &single;
    const std::lock_guard lock(mutex_);
    const cublasHandle_t handle = handle_of(current_device());
    check(cublasSetStream(handle, stream), "cublasSetStream");
    check(cublasScalEx_64(handle, count, alpha, computed_in, data, type, 1, computed_in),
          "cublasScalEx");
  }

  NcclStatus make_id(NcclId& id) override {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id.data(), made.internal, id.size());
    return status_of(result);
  }
  NcclStatus init(Comm& comm, int ranks, const NcclId& id, int rank) override {
    ncclUniqueId agreed;
    std::memcpy(agreed.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return status_of(ncclCommInitRankConfig(&comm, ranks, agreed, rank, &config));
  }
  NcclStatus async_status(Comm comm) override {
    ncclResult_t status = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &status);
    return status_of(asked == ncclSuccess ? status : asked);
  }
  NcclStatus finalize(Comm comm) override { return status_of(ncclCommFinalize(comm)); }
  NcclStatus destroy(Comm comm) override { return status_of(ncclCommDestroy(comm)); }
  NcclStatus abort(Comm comm) override { return status_of(ncclCommAbort(comm)); }
  NcclStatus group_start() override { return status_of(ncclGroupStart()); }
  NcclStatus group_end() override { return status_of(ncclGroupEnd()); }
  NcclStatus all_reduce(const void* input, void* output, std::int64_t count, DType dtype,
                        ReduceOp op, Comm comm, Stream stream) override {
    return status_of(
        ncclAllReduce(input, output, size(count), type_of(dtype), op_of(op, dtype), comm, stream));
  }
  NcclStatus reduce(const void* input, void* output, std::int64_t count, DType dtype, ReduceOp op,
                    int root, Comm comm, Stream stream) override {
    return status_of(ncclReduce(input, output, size(count), type_of(dtype), op_of(op, dtype), root,
                                comm, stream));
  }
  NcclStatus broadcast(const void* input, void* output, std::int64_t count, DType dtype, int root,
                       Comm comm, Stream stream) override {
    return status_of(ncclBroadcast(input, output, size(count), type_of(dtype), root, comm, stream));
  }
  NcclStatus all_gather(const void* input, void* output, std::int64_t count, DType dtype, Comm comm,
                        Stream stream) override {
    return status_of(ncclAllGather(input, output, size(count), type_of(dtype), comm, stream));
  }
  NcclStatus reduce_scatter(const void* input, void* output, std::int64_t count, DType dtype,
                            ReduceOp op, Comm comm, Stream stream) override {
    return status_of(ncclReduceScatter(input, output, size(count), type_of(dtype), op_of(op, dtype),
                                       comm, stream));
  }
  NcclStatus send(const void* input, std::int64_t count, DType dtype, int peer, Comm comm,
                  Stream stream) override {
    return status_of(ncclSend(input, size(count), type_of(dtype), peer, comm, stream));
  }
  NcclStatus receive(void* output, std::int64_t count, DType dtype, int peer, Comm comm,
                     Stream stream) override {
    return status_of(ncclRecv(output, size(count), type_of(dtype), peer, comm, stream));
  }
  std::string error_text(NcclStatus status, Comm comm) override {
    std::string text = ncclGetErrorString(static_cast<ncclResult_t>(status));
    const char* last = comm ? ncclGetLastError(comm) : nullptr;
    if (last && *last) text += fmt::format(" ({})", last);
    return text + "; NCCL_DEBUG=INFO says more";
  }

 private:
  /// cuBLAS's, made at the first mean on a device.
  cublasHandle_t handle_of(int device) {
    cublasHandle_t& handle = handles_[device];
    if (!handle) check(cublasCreate(&handle), "cublasCreate");
    return handle;
  }

  std::mutex mutex_;
  std::map<int, cublasHandle_t> handles_;  // kept: the driver may be gone before static destructors
};

}  // namespace

bool has_nccl() noexcept { return true; }

std::shared_ptr<NcclApi> nccl_library() {
  static auto* library = new std::shared_ptr<NcclApi>(std::make_shared<NcclLibrary>());
  return *library;
}

}  // namespace lockstep
