#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep {

/// A rectangular part of a tensor: [offsets, offsets + sizes) in each dimension.
struct Region {
  Shape offsets, sizes;
  [[nodiscard]] static Region whole(const Shape& shape);
  friend bool operator==(const Region&, const Region&) = default;
};

/// Contiguous bytes of a data set.
struct Run {
  std::int64_t begin = 0;  ///< in the data set
  std::int64_t bytes = 0;
  std::int64_t at = 0;  ///< in the part it belongs to; the part's runs lie end to end
};

/// The runs of a part, in order.
[[nodiscard]] std::vector<Run> runs_of(const DatasetEntry& entry, const Region& region);
/// The same of a part that consists of several regions, whose elements lie end to end in it.
[[nodiscard]] std::vector<Run> runs_of(const DatasetEntry& entry, std::span<const Region> regions);
[[nodiscard]] std::vector<Run> runs_of(const Slab& slab);

/// The overlap of two parts.
struct CommonRun {
  std::int64_t at_first = 0, at_second = 0;  ///< as Run::at
  std::int64_t bytes = 0;
};
[[nodiscard]] std::vector<CommonRun> common_runs(std::span<const Run> first,
                                                 std::span<const Run> second);

/// Cuts the region into slabs of at most `slab_bytes` each, in the order of its elements.
/// Slab::local counts from the region's first byte.
[[nodiscard]] std::vector<Slab> cut_slabs(const DatasetEntry& entry, const Region& region);

/// A region that a rank holds: all of its part, or one of several that lie end to end.
struct HeldRegion {
  int rank = 0;
  Region region;
  std::int64_t at = 0;  ///< its first byte in the rank's part
};

/// Cuts the ranks' regions into slabs. A slab of a region that several ranks hold goes to the one
/// with the least to write according to `loads` (bytes per rank), which is updated. Throws
/// CheckpointError naming the ranks unless the regions tile the tensor.
[[nodiscard]] std::vector<Slab> plan_slabs(const DatasetEntry& entry,
                                           std::span<const HeldRegion> held,
                                           std::vector<std::int64_t>& loads);

/// A rank that holds a region, which begins at byte `at` of the rank's part.
struct RegionHolder {
  int rank = 0;
  std::int64_t at = 0;
};

/// The holders, by rank, of each region that plan_slabs cuts: Slab::region is the index.
[[nodiscard]] std::vector<std::vector<RegionHolder>> holders_of(std::span<const HeldRegion> held);

}  // namespace lockstep
