#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/checkpoint/save/plan.hpp>

namespace lockstep {

/// Memory for a copy of this rank's part of a state. It is touched at allocation, so that no save
/// waits for page faults (they cost more than the copy), and reused from save to save.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  /// At least `bytes` bytes, aligned to a page. Growing loses the old contents. Throws Error if
  /// memory is short.
  std::byte* reserve(std::int64_t bytes);

 private:
  void release() noexcept;

  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// A slab's bytes, ready to be written.
struct StagedSlab {
  std::size_t dataset = 0;  ///< index into the plan
  Slab slab;                ///< with its checksum
  const std::byte* data = nullptr;
};

/// This rank's slabs, in the order of the plan.
struct StagedSlabs {
  std::vector<StagedSlab> slabs;
  std::vector<Tensor> held;  ///< memory of `data`, unless that is a buffer
  std::string not_finite;    ///< path of the first tensor with an infinity or NaN; or empty
};

/// The tensor itself, or a copy of a device's.
[[nodiscard]] Tensor on_host(const Tensor& tensor);

/// Bytes that staging needs in a buffer.
[[nodiscard]] std::int64_t staged_bytes(const std::vector<PlannedDataset>& plan, int rank);

/// Reads every byte that `rank` writes, once: computes checksums and checks for finite values. With
/// a buffer the same pass copies the bytes into it, and the tensors may change afterwards. Without
/// one, bytes are written from the tensors. Throws Error if memory is short.
[[nodiscard]] StagedSlabs stage_slabs(const std::vector<PlannedDataset>& plan, int rank,
                                      StagingBuffer* buffer);

}  // namespace lockstep
