#pragma once
#include <cstddef>
#include <memory>

namespace lockstep {

/// Memory that the ranks of one node have in common: equal parts, one a rank, zeroed.
class Segment {
 public:
  virtual ~Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// For ranks that are threads of this process, or for one rank alone. Throws Error where there is
  /// no memory.
  [[nodiscard]] static std::shared_ptr<Segment> in_this_process(int ranks, std::size_t bytes);

  [[nodiscard]] std::byte* part(int node_rank) const noexcept {
    return base_ + static_cast<std::size_t>(node_rank) * part_bytes_;
  }
  [[nodiscard]] std::size_t part_bytes() const noexcept { return part_bytes_; }

 protected:
  Segment(std::byte* base, std::size_t part_bytes) : base_(base), part_bytes_(part_bytes) {}
  [[nodiscard]] std::byte* base() const noexcept { return base_; }

 private:
  std::byte* base_;
  std::size_t part_bytes_;
};

}  // namespace lockstep
