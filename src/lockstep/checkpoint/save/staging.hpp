#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/checkpoint/save/plan.hpp>

namespace lockstep {

/// Memory for a copy of this rank's part of a state. It is touched when it is made, so that no save
/// waits for page faults (they cost more than the copy), and kept from save to save.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  /// At least `bytes` bytes, aligned to a page. What was there is lost if they are more than ever
  /// before. Throws Error where memory is short.
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
  std::vector<Tensor> held;  ///< what data points into, unless that is a buffer
  std::string not_finite;    ///< path of the first tensor with an infinity or NaN in it; or empty
};

/// Bytes that staging takes of a buffer.
[[nodiscard]] std::int64_t staged_bytes(const std::vector<PlannedDataset>& plan, int rank);

/// Looks at every byte that `rank` is to write, once: checksums, and whether it is finite. With a
/// buffer the bytes are copied into it in the same pass, and the tensors may change afterwards;
/// without one they are written from where they are. Throws Error where memory is short.
[[nodiscard]] StagedSlabs stage_slabs(const std::vector<PlannedDataset>& plan, int rank,
                                      StagingBuffer* buffer);

}  // namespace lockstep
