#pragma once
#include <memory>

#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::test {

/// The GPU of every rank of the tests that need one.
inline constexpr Device gpu{DeviceType::cuda, 0};

/// Device memory, also in builds with host kernels only.
[[nodiscard]] Tensor gpu_memory(std::int64_t bytes);
void read_gpu(const Tensor& t, void* to);
void write_gpu(const Tensor& t, const void* from);

/// A new nccl group over all ranks. Collective.
[[nodiscard]] std::shared_ptr<ProcessGroup> gpu_group(const GroupOptions& options);

}  // namespace lockstep::test
