// nccl on GPUs, over all ranks that mpiexec started, which may share one GPU: NCCL_HOSTID tells
// them apart. The tests' own tensors are there, all others on the host.
#include <cstdlib>
#include <string>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/nccl_gpu.hpp>
#include <comm/tensors.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep::test {
namespace {

void expect_success(cudaError_t status) {
  EXPECT_EQ(cudaGetErrorString(status), std::string("no error"));
}

}  // namespace

Tensor gpu_memory(std::int64_t bytes) {
  void* data = nullptr;
  expect_success(cudaSetDevice(gpu.index));
  expect_success(cudaMalloc(&data, static_cast<std::size_t>(bytes) + 1));
  auto storage = Storage::borrow(data, static_cast<std::size_t>(bytes) + 1, gpu,
                                 [](void* p, void*) noexcept { cudaFree(p); });
  return Tensor::over(std::move(storage), 0, {bytes}, DType::u8);
}

/// Behind the work on the current stream, as a collective's result is after wait(). The null
/// stream's copies are not ordered with it.
void copy_on_stream(void* to, const void* from, std::size_t bytes) {
  const Stream& stream = current_stream(gpu);
  expect_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()));
  stream.synchronize();
}

void read_gpu(const Tensor& t, void* to) { copy_on_stream(to, t.data(), t.bytes()); }

void write_gpu(const Tensor& t, const void* from) { copy_on_stream(t.data(), from, t.bytes()); }

std::shared_ptr<ProcessGroup> gpu_group(const GroupOptions& options) {
  auto control = make_mpi_group(MPI_COMM_WORLD, options);
  setenv("NCCL_HOSTID", std::to_string(control->rank()).c_str(), 1);
  device_memory = {.make = [](int, std::int64_t bytes) { return gpu_memory(bytes); },
                   .read = read_gpu,
                   .write = write_gpu};
  return make_nccl_group(std::move(control), gpu, options);
}

bool share_memory(int /*a*/, int /*b*/) { return true; }

void on_every_group(const Claim& claim) {
  static const auto group = gpu_group(usual_options);
  claim(*group);
}

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  MPI_Barrier(MPI_COMM_WORLD);  // ranks leave a broken group one by one
  claim(*gpu_group(options));
}

}  // namespace lockstep::test
