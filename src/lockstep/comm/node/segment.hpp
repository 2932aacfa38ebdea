#pragma once
#include <cstddef>
#include <memory>

namespace lockstep {

/// Memory that the ranks of one node have in common: equal parts of whole pages, one a rank,
/// zeroed.
class Segment {
 public:
  /// Takes over a mapping of `ranks` parts.
  Segment(void* mapping, int ranks, std::size_t part_bytes) noexcept;
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// For ranks that are threads of this process, or for one rank alone. Throws Error if memory is
  /// exhausted.
  [[nodiscard]] static std::shared_ptr<Segment> in_this_process(int ranks, std::size_t bytes);
  /// A part of at least `bytes`: whole pages, one at least.
  [[nodiscard]] static std::size_t part_for(std::size_t bytes) noexcept;

  [[nodiscard]] std::byte* part(int node_rank) const noexcept {
    return base_ + static_cast<std::size_t>(node_rank) * part_bytes_;
  }
  [[nodiscard]] std::size_t part_bytes() const noexcept { return part_bytes_; }

 private:
  std::byte* base_;
  std::size_t part_bytes_, bytes_;
};

}  // namespace lockstep
