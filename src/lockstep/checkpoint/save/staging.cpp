#include <lockstep/checkpoint/save/staging.hpp>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/save/slab_summary.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {
namespace {

/// Each slab begins at a multiple of this, so that copies are aligned.
constexpr std::int64_t alignment = 64;

std::int64_t with_padding(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Tensor on_host(const Tensor& tensor) {
  if (tensor.device() == Device{}) return tensor;
  Tensor host = tensor.to(Device{}, true);  // pinned memory copies faster
  current_stream(tensor.device()).synchronize();
  return host;
}

StagingBuffer::~StagingBuffer() { release(); }

void StagingBuffer::release() noexcept {
  if (data_) ::munmap(data_, static_cast<std::size_t>(bytes_));
  data_ = nullptr;
  bytes_ = 0;
}

std::byte* StagingBuffer::reserve(std::int64_t bytes) {
  if (bytes <= bytes_) return data_;
  release();
  const auto size = static_cast<std::size_t>(bytes);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(
        fmt::format("cannot allocate a copy of {} of the state: {}. Save without a copy "
                    "(checkpoint.async = false)",
                    format_bytes(bytes), std::generic_category().message(errno)));
  }
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  // Huge pages, set before the first touch: fewer faults, and fewer TLB misses in every copy. No
  // effect where they are off.
  static_cast<void>(::madvise(data, size, MADV_HUGEPAGE));
  std::fill_n(data_, size, std::byte{0});
  return data_;
}

std::int64_t staged_bytes(const std::vector<PlannedDataset>& plan, int rank) {
  std::int64_t total = 0;
  for (const auto& planned : plan) {
    for (const auto& slab : planned.entry.slabs)
      total += slab.owner == rank ? with_padding(slab.bytes) : 0;
  }
  return total;
}

StagedSlabs stage_slabs(const std::vector<PlannedDataset>& plan, int rank, StagingBuffer* buffer) {
  StagedSlabs staged;
  std::byte* to = buffer ? buffer->reserve(staged_bytes(plan, rank)) : nullptr;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto& entry = plan[i].entry;
    const Tensor& local = plan[i].local;
    Tensor host;
    for (Slab slab : entry.slabs) {
      if (slab.owner != rank) continue;
      if (!host.defined()) host = on_host(local);
      const auto* from = static_cast<const std::byte*>(host.data()) + slab.local;
      const SlabSummary summary = to ? copy_and_summarise(from, to, slab.bytes, entry.dtype)
                                     : summarise(from, slab.bytes, entry.dtype);
      slab.hash = summary.hash;
      staged.slabs.push_back({i, slab, to ? to : from});
      if (to) to += with_padding(slab.bytes);
      if (staged.not_finite.empty() && !summary.finite && entry.is_state())
        staged.not_finite = entry.path;
    }
    if (host.defined() && !buffer) staged.held.push_back(host);
  }
  return staged;
}

}  // namespace lockstep
