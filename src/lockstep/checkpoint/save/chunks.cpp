#include <lockstep/checkpoint/save/chunks.hpp>

#include <algorithm>

#include <lockstep/checkpoint/save/plan.hpp>

namespace lockstep {
namespace {

std::int64_t element_bytes(const DatasetEntry& entry) {
  return static_cast<std::int64_t>(size_of(entry.dtype));
}

}  // namespace

Shape chunk_shape(const DatasetEntry& entry) {
  std::vector<std::int64_t> extents(entry.shape.begin(), entry.shape.end());
  std::int64_t bytes = element_bytes(entry);
  for (auto extent = extents.rbegin(); extent != extents.rend(); ++extent) {
    const std::int64_t most = std::max<std::int64_t>(1, slab_bytes / bytes);
    const std::int64_t pieces = (*extent + most - 1) / most;
    *extent = (*extent + pieces - 1) / pieces;
    bytes = pieces == 1 ? bytes * *extent : slab_bytes;  // one by one, once this dimension is cut
  }
  return Shape(extents);
}

std::vector<Slab> cut_chunks(const DatasetEntry& entry) {
  const Shape chunk = chunk_shape(entry);
  const std::int64_t full = chunk.numel() * element_bytes(entry);
  // Bytes of a run of chunks: the product of the dimensions inside the cut one.
  int cut = 0;
  while (cut + 1 < chunk.dims() && chunk[cut] == 1) ++cut;
  std::int64_t row = element_bytes(entry);
  for (int d = cut; d < chunk.dims(); ++d) row *= entry.shape[d];
  std::vector<Slab> slabs;
  for (std::int64_t begin = 0; begin < entry.bytes(); begin += row) {
    for (std::int64_t done = 0; done < row; done += full) {
      Slab slab;
      slab.begin = slab.local = begin + done;
      slab.bytes = std::min(full, row - done);
      slab.chunk.full = full;
      slabs.push_back(slab);
    }
  }
  return slabs;
}

Shape first_element(const DatasetEntry& entry, const Slab& slab) {
  std::vector<std::int64_t> at(entry.shape.begin(), entry.shape.end());
  std::int64_t rest = slab.begin / element_bytes(entry);
  for (auto place = at.rbegin(); place != at.rend(); ++place) {
    const std::int64_t extent = *place;
    *place = rest % extent;
    rest /= extent;
  }
  return Shape(at);
}

}  // namespace lockstep
