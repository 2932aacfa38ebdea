#pragma once
#include <vector>

#include <lockstep/checkpoint/file/manifest.hpp>

namespace lockstep {

/// How a compressed data set is cut: runs of at most slab_bytes, of equal shape except for the last
/// in a row, so that they can be HDF5 chunks.
[[nodiscard]] Shape chunk_shape(const DatasetEntry& entry);
[[nodiscard]] std::vector<Slab> cut_chunks(const DatasetEntry& entry);

/// Index of a chunk within the data set's elements.
[[nodiscard]] Shape first_element(const DatasetEntry& entry, const Slab& slab);

}  // namespace lockstep
