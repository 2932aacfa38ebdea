// The only file that calls NCCL. It makes a communicator's device current where it needs to, and
// afterwards that of before: choose_cuda_device() comes first.
#include <fmt/format.h>
#include <nccl.h>

#include <cstring>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/tensor/runtime/cuda_device_scope.hpp>

namespace lockstep {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
static_assert(static_cast<int>(NcclStatus::success) == ncclSuccess);
static_assert(static_cast<int>(NcclStatus::in_progress) == ncclInProgress);

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

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

class NcclLibrary final : public NcclApi {
 public:
  [[nodiscard]] DeviceType device_type() const noexcept override { return DeviceType::cuda; }

  NcclStatus make_id(NcclId& id) override {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id.data(), made.internal, id.size());
    return status_of(result);
  }
  NcclStatus init(Comm& comm, int ranks, const NcclId& id, int rank, int device) override {
    ncclUniqueId agreed;
    std::memcpy(agreed.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      const detail::CudaDeviceScope here(device);
      return status_of(ncclCommInitRankConfig(&comm, ranks, agreed, rank, &config));
    } catch (const DeviceError&) {
      return status_of(ncclUnhandledCudaError);
    }
  }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
  [[nodiscard]] bool can_split() const noexcept override { return true; }
  NcclStatus split(Comm parent, int colour, int key, Comm& part) override {
    detail::choose_cuda_device();
    return status_of(ncclCommSplit(parent, colour < 0 ? NCCL_SPLIT_NOCOLOR : colour, key, &part,
                                   nullptr));  // the new communicator does not block either
  }
#else
  [[nodiscard]] bool can_split() const noexcept override { return false; }
  NcclStatus split(Comm, int, int, Comm&) override { return status_of(ncclInvalidUsage); }
#endif
  NcclStatus async_status(Comm comm) override {
    ncclResult_t status = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &status);
    return status_of(asked == ncclSuccess ? status : asked);
  }
  NcclStatus finalize(Comm comm) override {
    detail::choose_cuda_device();
    return status_of(ncclCommFinalize(comm));
  }
  NcclStatus destroy(Comm comm) override {
    detail::choose_cuda_device();
    return status_of(ncclCommDestroy(comm));
  }
  NcclStatus abort(Comm comm) override {
    detail::choose_cuda_device();
    return status_of(ncclCommAbort(comm));
  }
  NcclStatus group_start() override {
    detail::choose_cuda_device();
    return status_of(ncclGroupStart());
  }
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
    return text + "; NCCL_DEBUG=INFO prints more";
  }
};

}  // namespace

bool has_nccl() noexcept { return true; }

std::shared_ptr<NcclApi> nccl_library() {
  static auto* library = new std::shared_ptr<NcclApi>(std::make_shared<NcclLibrary>());
  return *library;
}

}  // namespace lockstep
