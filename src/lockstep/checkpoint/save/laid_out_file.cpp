#include <lockstep/checkpoint/save/laid_out_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/file/layout.hpp>

namespace lockstep {

LaidOutFile::LaidOutFile(const File& file, std::vector<DatasetEntry> datasets) {
  manifest_.datasets = std::move(datasets);
  Hdf5Image image(Hdf5Image::Elements::dropped);
  header_ = lay_out(manifest_, image);
  file.resize(header_.file_bytes);
  Hasher hasher;
  std::vector<char> buffer;
  for (const auto& extent : structure_extents(header_, manifest_)) {
    buffer.resize(static_cast<std::size_t>(extent.bytes));
    image.read_at(extent.offset, buffer.data(), extent.bytes);
    hasher.update(buffer.data(), buffer.size());
    file.write_at(extent.offset, buffer.data(), extent.bytes);
  }
  manifest_.structure_hash = hasher.digest();
}

std::vector<std::int64_t> LaidOutFile::offsets() const {
  std::vector<std::int64_t> offsets;
  for (const auto& entry : manifest_.datasets) offsets.push_back(entry.offset);
  return offsets;
}

bool LaidOutFile::fits(const std::vector<DatasetEntry>& datasets) const {
  const auto same_slab = [](const Slab& a, const Slab& b) {
    return a.begin == b.begin && a.bytes == b.bytes && a.owner == b.owner && a.run == b.run &&
           a.stride == b.stride;
  };
  return std::ranges::equal(
      manifest_.datasets, datasets, [&](const DatasetEntry& a, const DatasetEntry& b) {
        return a.path == b.path && a.dtype == b.dtype && a.text == b.text && a.shape == b.shape &&
               std::ranges::equal(a.slabs, b.slabs, same_slab);
      });
}

void LaidOutFile::finish(const File& file, const std::vector<std::vector<std::uint64_t>>& hashes) {
  std::vector<std::size_t> used(hashes.size(), 0);
  for (auto& entry : manifest_.datasets) {
    for (auto& slab : entry.slabs) {
      const auto owner = static_cast<std::size_t>(slab.owner);
      if (used[owner] == hashes[owner].size())  // treats ranks that do not exist the same
        throw Error(fmt::format("rank {} has staged less than its part", owner));
      slab.hash = hashes[owner][used[owner]++];
    }
  }
  const std::string text = manifest_.to_text();
  header_.manifest_hash = hash64(text.data(), text.size());
  file.write_at(header_.manifest.offset, text.data(), header_.manifest.bytes);
  const auto block = header_.to_block();
  file.write_at(0, block.data(), Header::bytes);
}

}  // namespace lockstep
