#pragma once
#include <vector>

#include <lockstep/checkpoint/file/manifest.hpp>

namespace lockstep {

/// How a data set that is compressed is cut: runs of at most slab_bytes, of equal shape but for
/// what is missing from the last one in a row, so that HDF5 can have them as chunks.
[[nodiscard]] Shape chunk_shape(const DatasetEntry& entry);
[[nodiscard]] std::vector<Slab> cut_chunks(const DatasetEntry& entry);

/// Of a chunk: its place among the data set's elements.
[[nodiscard]] Shape first_element(const DatasetEntry& entry, const Slab& slab);

}  // namespace lockstep
