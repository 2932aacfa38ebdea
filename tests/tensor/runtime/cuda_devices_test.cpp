// On which devices a process makes contexts, without a GPU: functions of this file stand in for
// CUDA's. As CUDA's, they make a context of the thread's current device, which is 0 at first.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/runtime/cuda_device_scope.hpp>
#include <lockstep/tensor/runtime/cuda_runtime.hpp>

namespace {

std::mutex mutex;
std::set<int> contexts;
thread_local int current = 0;

cudaError_t in_context() {
  const std::lock_guard lock(mutex);
  contexts.insert(current);
  return cudaSuccess;
}

int primary_context_state(int device, unsigned* /*flags*/, int* is_active) {
  const std::lock_guard lock(mutex);
  *is_active = contexts.contains(device) ? 1 : 0;
  return 0;
}

int something;  // what handles point to

template <class Handle>
cudaError_t make(Handle* handle) {
  *handle = reinterpret_cast<Handle>(&something);
  return in_context();
}

cudaError_t make_memory(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return in_context();
}

cudaError_t free_memory(void* data) {
  std::free(data);
  return in_context();
}

}  // namespace

extern "C" {
// Uses no device.
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current = device;
  return in_context();  // since CUDA 12
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  EXPECT_STREQ(name, "cuDevicePrimaryCtxGetState");
  *address = reinterpret_cast<void*>(&primary_context_state);
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* name, void** address, unsigned long long,
                                    cudaDriverEntryPointQueryResult*) {
  return cudaGetDriverEntryPointByVersion(name, address, 0, 0, nullptr);
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) { return make_memory(data, bytes); }
cudaError_t cudaFree(void* data) { return free_memory(data); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return make_memory(data, bytes);
}
cudaError_t cudaFreeHost(void* data) { return free_memory(data); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return make(stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return in_context(); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return in_context(); }
cudaError_t cudaDeviceSynchronize() { return in_context(); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return in_context();
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return in_context();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return make(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return in_context(); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return in_context(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return in_context(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return in_context(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return in_context(); }
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return in_context(); }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) { return make(graph); }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* program, cudaGraph_t, unsigned long long) {
  return make(program);
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return in_context(); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return in_context(); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return in_context(); }
}

namespace lockstep {
namespace {

using detail::CudaDeviceScope;

constexpr int own = 2, users = 1, second = 3;  // 0 is for other processes

/// As if this process had used no device yet.
void forget_contexts() {
  const std::lock_guard lock(mutex);
  contexts.clear();
}

int current_device() {
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

TEST(CudaDevices, NoThreadMakesAContextOnADeviceThatNobodyHasChosen) {
  forget_contexts();
  const auto cuda = make_cuda_runtime();
  DeviceRuntime& runtime = *cuda;
  RuntimeStream* const stream = runtime.make_stream(own);
  RuntimeEvent* const event = runtime.make_event(own, false);
  void* const data = runtime.allocate(own, 64);
  std::vector<char> host(64);
  void* pinned = nullptr;
  RuntimeGraph* graph = nullptr;
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"allocate_pinned", [&] { pinned = runtime.allocate_pinned(64); }},
      {"copy", [&] { runtime.copy(data, host.data(), 64, stream); }},
      {"fill", [&] { runtime.fill(data, 1, 64, stream); }},
      {"synchronize", [&] { runtime.synchronize(stream); }},
      {"synchronize_device", [&] { runtime.synchronize_device(own); }},
      {"record", [&] { runtime.record(event, stream); }},
      {"wait", [&] { runtime.wait(stream, event); }},
      {"is_over", [&] { EXPECT_TRUE(runtime.is_over(event)); }},
      {"synchronize_event", [&] { runtime.synchronize(event); }},
      {"begin_capture", [&] { runtime.begin_capture(stream); }},
      {"end_capture", [&] { graph = runtime.end_capture(stream); }},
      {"launch", [&] { runtime.launch(graph, stream); }},
      {"destroy_graph", [&] { runtime.destroy(graph); }},
      {"free_pinned", [&] { runtime.free_pinned(pinned); }},
      {"free", [&] { runtime.free(own, data); }},
      {"destroy_event", [&] { runtime.destroy(event); }},
      {"destroy_stream", [&] { runtime.destroy(stream); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    std::thread(call).join();
    EXPECT_EQ(contexts, std::set<int>{own});
  }
}

TEST(CudaDevices, AScopeReturnsToTheUsersDevice) {
  forget_contexts();
  std::thread([] {
    ASSERT_EQ(cudaSetDevice(users), cudaSuccess);
    {
      const CudaDeviceScope here(own);
      EXPECT_EQ(current_device(), own);
      {
        const CudaDeviceScope there(second);
        EXPECT_EQ(current_device(), second);
      }
      EXPECT_EQ(current_device(), own);
    }
    EXPECT_EQ(current_device(), users);
    detail::choose_cuda_device();
    EXPECT_EQ(current_device(), users);
  }).join();
  EXPECT_EQ(contexts, (std::set<int>{users, own, second}));
}

TEST(CudaDevices, AnotherThreadStaysOnTheScopesDevice) {
  forget_contexts();
  std::thread([] {
    { const CudaDeviceScope here(second); }
    EXPECT_EQ(current_device(), second);
  }).join();
  EXPECT_FALSE(contexts.contains(0));
}

}  // namespace
}  // namespace lockstep
