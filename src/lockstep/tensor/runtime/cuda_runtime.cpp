// The only file of this layer that calls the CUDA runtime, except for cuda_device_scope.
#include <lockstep/tensor/runtime/cuda_runtime.hpp>

#include <memory>
#include <string>

#include <lockstep/tensor/runtime/cuda_device_scope.hpp>

namespace lockstep {
namespace {

using detail::choose_cuda_device;
using detail::CudaDeviceScope;

void expect(cudaError_t status, const char* call) { detail::expect_cuda(status, call); }

// A call that takes one of these names no device.
template <class Handle, class Record>
Handle handle_of(Record* record) {
  choose_cuda_device();
  return reinterpret_cast<Handle>(record);
}
cudaStream_t of(RuntimeStream* stream) { return handle_of<cudaStream_t>(stream); }
cudaEvent_t of(RuntimeEvent* event) { return handle_of<cudaEvent_t>(event); }
cudaGraphExec_t of(RuntimeGraph* graph) { return handle_of<cudaGraphExec_t>(graph); }

class CudaRuntime final : public DeviceRuntime {
 public:
  [[nodiscard]] DeviceType type() const noexcept override { return DeviceType::cuda; }

  [[nodiscard]] int device_count() override {
    int count = 0;  // stays 0 on a machine without a driver
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return 0;
    }
    return count;
  }

  [[nodiscard]] void* allocate(int device, std::size_t bytes) override {
    const CudaDeviceScope here(device);
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes > 0 ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    expect(status, "cudaMalloc");
    return data;
  }
  void free(int /*device*/, void* data) noexcept override {
    choose_cuda_device();
    static_cast<void>(cudaFree(data));
  }

  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override {
    choose_cuda_device();
    void* data = nullptr;
    const cudaError_t status = cudaHostAlloc(&data, bytes > 0 ? bytes : 1, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    expect(status, "cudaHostAlloc");
    return data;
  }
  void free_pinned(void* data) noexcept override {
    choose_cuda_device();
    static_cast<void>(cudaFreeHost(data));
  }

  [[nodiscard]] RuntimeStream* make_stream(int device) override {
    const CudaDeviceScope here(device);
    cudaStream_t stream = nullptr;
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return reinterpret_cast<RuntimeStream*>(stream);
  }
  void destroy(RuntimeStream* stream) noexcept override {
    static_cast<void>(cudaStreamSynchronize(of(stream)));
    static_cast<void>(cudaStreamDestroy(of(stream)));
  }
  void synchronize(RuntimeStream* stream) override {
    expect(cudaStreamSynchronize(of(stream)), "cudaStreamSynchronize");
  }
  void synchronize_device(int device) override {
    const CudaDeviceScope here(device);
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void copy(void* to, const void* from, std::size_t bytes, RuntimeStream* stream) override {
    expect(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "cudaMemcpyAsync");
  }
  void fill(void* to, unsigned char value, std::size_t bytes, RuntimeStream* stream) override {
    expect(cudaMemsetAsync(to, value, bytes, of(stream)), "cudaMemsetAsync");
  }

  [[nodiscard]] RuntimeEvent* make_event(int device, bool enable_timing) override {
    const CudaDeviceScope here(device);
    cudaEvent_t event = nullptr;
    expect(
        cudaEventCreateWithFlags(&event, enable_timing ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
    return reinterpret_cast<RuntimeEvent*>(event);
  }
  void destroy(RuntimeEvent* event) noexcept override {
    static_cast<void>(cudaEventDestroy(of(event)));
  }
  void record(RuntimeEvent* event, RuntimeStream* stream) override {
    expect(cudaEventRecord(of(event), of(stream)), "cudaEventRecord");
  }
  void wait(RuntimeStream* stream, RuntimeEvent* event) override {
    expect(cudaStreamWaitEvent(of(stream), of(event), 0), "cudaStreamWaitEvent");
  }
  [[nodiscard]] bool is_over(RuntimeEvent* event) override {
    const cudaError_t status = cudaEventQuery(of(event));
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    expect(status, "cudaEventQuery");
    return true;
  }
  void synchronize(RuntimeEvent* event) override {
    expect(cudaEventSynchronize(of(event)), "cudaEventSynchronize");
  }
  [[nodiscard]] double milliseconds(RuntimeEvent* from, RuntimeEvent* to) override {
    float time = 0;
    expect(cudaEventElapsedTime(&time, of(from), of(to)), "cudaEventElapsedTime");
    return time;
  }

  void begin_capture(RuntimeStream* stream) override {
    expect(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal),
           "cudaStreamBeginCapture");
  }
  [[nodiscard]] RuntimeGraph* end_capture(RuntimeStream* stream) override {
    cudaGraph_t graph = nullptr;
    expect(cudaStreamEndCapture(of(stream), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t program = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&program, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    expect(status, "cudaGraphInstantiate");
    return reinterpret_cast<RuntimeGraph*>(program);
  }
  void launch(RuntimeGraph* graph, RuntimeStream* stream) override {
    expect(cudaGraphLaunch(of(graph), of(stream)), "cudaGraphLaunch");
  }
  void destroy(RuntimeGraph* graph) noexcept override {
    static_cast<void>(cudaGraphExecDestroy(of(graph)));
  }

  [[nodiscard]] std::string pci_address(int device) override {
    char address[32] = {};
    if (cudaDeviceGetPCIBusId(address, sizeof address, device) == cudaSuccess) return address;
    static_cast<void>(cudaGetLastError());
    return "";
  }
};

}  // namespace

std::unique_ptr<DeviceRuntime> make_cuda_runtime() { return std::make_unique<CudaRuntime>(); }

}  // namespace lockstep
