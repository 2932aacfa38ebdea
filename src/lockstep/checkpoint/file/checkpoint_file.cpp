#include <lockstep/checkpoint/file/checkpoint_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/save/deflate.hpp>
#include <lockstep/io/hdf5.hpp>
#include <lockstep/tensor/finite.hpp>

namespace lockstep {

CheckpointFile::CheckpointFile(std::filesystem::path path) : path_(std::move(path)) {
  try {
    file_ = File::open_for_reading(path_);
    const auto size = file_.size();
    Header::Block block{};
    file_.read_at(0, block.data(), std::min(size, Header::bytes));
    if (std::string_view(block.data(), block.size()).starts_with(hdf5_signature))
      fail("is an HDF5 file, but not a checkpoint: it does not begin with Lockstep's header");
    if (size < Header::bytes)
      fail(fmt::format("is not a checkpoint, or was cut off: it has only {} bytes", size));
    header_ = Header::parse(block);
    if (size != header_.file_bytes)
      fail(fmt::format("is damaged: it has {} bytes, but was written with {}", size,
                       header_.file_bytes));
    if (header_.manifest.offset > size || header_.manifest.bytes > size - header_.manifest.offset)
      fail("is damaged: its manifest lies beyond its end");
    std::string text(static_cast<std::size_t>(header_.manifest.bytes), '\0');
    file_.read_at(header_.manifest.offset, text.data(), header_.manifest.bytes);
    if (hash64(text.data(), text.size()) != header_.manifest_hash)
      fail(fmt::format(
          "is damaged: /manifest, bytes {} to {} of the file, does not match its "
          "checksum",
          header_.manifest.offset, header_.manifest.offset + header_.manifest.bytes - 1));
    manifest_ = Manifest::parse(text);
    Hasher hasher;
    std::vector<char> buffer;
    const auto structure = structure_extents(header_, manifest_);
    for (const auto& extent : structure) {
      buffer.resize(static_cast<std::size_t>(extent.bytes));
      file_.read_at(extent.offset, buffer.data(), extent.bytes);
      hasher.update(buffer.data(), buffer.size());
    }
    if (hasher.digest() != manifest_.structure_hash)
      fail(fmt::format(
          "is damaged: HDF5's own structure, between bytes {} and {} of the file, does "
          "not match its checksum",
          structure.front().offset, structure.back().offset + structure.back().bytes - 1));
  } catch (const CheckpointError&) {
    throw;
  } catch (const FileError& e) {
    throw CheckpointError(fmt::format("checkpoint unusable: {}", e.what()));
  } catch (const Error& e) {
    fail(e.what());
  }
}

Tensor CheckpointFile::read(const DatasetEntry& entry) const {
  return read(entry, Region::whole(entry.shape));
}

Tensor CheckpointFile::read(const DatasetEntry& entry, const Region& region) const {
  auto tensor = Tensor::empty(region.sizes, entry.dtype);
  read(entry, std::span(&region, 1), tensor);
  return tensor;
}

void CheckpointFile::read(const DatasetEntry& entry, std::span<const Region> regions,
                          const Tensor& part) const {
  const std::vector<Run> wanted = runs_of(entry, regions);
  for (const auto& slab : entry.slabs)
    read_slab(entry, slab, wanted, static_cast<std::byte*>(part.data()));
}

void CheckpointFile::read_slabs(const DatasetEntry& entry, int owner, const Tensor& whole) const {
  const std::vector<Run> wanted = runs_of(entry, Region::whole(entry.shape));
  for (const auto& slab : entry.slabs) {
    if (slab.owner == owner) read_slab(entry, slab, wanted, static_cast<std::byte*>(whole.data()));
  }
}

void CheckpointFile::read_slab(const DatasetEntry& entry, const Slab& slab,
                               const std::vector<Run>& wanted, std::byte* target) const {
  if (wanted.empty() || slab.end() <= wanted.front().begin ||
      slab.begin >= wanted.back().begin + wanted.back().bytes)
    return;
  const std::vector<CommonRun> common = common_runs(runs_of(slab), wanted);
  if (common.empty()) return;
  if (common.front().bytes == slab.bytes)
    return check_slab(entry, slab, target + common.front().at_second);
  std::vector<std::byte> buffer(static_cast<std::size_t>(slab.bytes));
  check_slab(entry, slab, buffer.data());
  for (const auto& [from, to, bytes] : common)
    std::memcpy(target + to, buffer.data() + from, static_cast<std::size_t>(bytes));
}

std::string CheckpointFile::text(const std::string& dataset) const {
  const auto bytes = read(require(dataset)).to_vector<std::uint8_t>();
  const auto end = std::ranges::find(bytes, 0);
  return {bytes.begin(), end};
}

std::int64_t CheckpointFile::integer(const std::string& dataset) const {
  return read(require(dataset)).to_vector<std::int64_t>().at(0);
}

double CheckpointFile::real(const std::string& dataset) const {
  return read(require(dataset)).to_vector<double>().at(0);
}

bool CheckpointFile::has(const DatasetEntry& entry, const Slab& slab) const {
  std::vector<std::byte> buffer(static_cast<std::size_t>(slab.bytes));
  return failure_of([&] { check_slab(entry, slab, buffer.data()); }) == std::nullopt;
}

bool CheckpointFile::verify(const DatasetEntry& entry) const {
  const auto element = static_cast<std::int64_t>(size_of(entry.dtype));
  std::vector<std::byte> buffer;
  bool finite = true;
  for (const auto& slab : entry.slabs) {
    buffer.resize(static_cast<std::size_t>(slab.bytes));
    check_slab(entry, slab, buffer.data());
    finite = finite && all_finite(buffer.data(), slab.bytes / element, entry.dtype);
  }
  return finite;
}

void CheckpointFile::check_slab(const DatasetEntry& entry, const Slab& slab, void* target) const {
  auto* to = static_cast<std::byte*>(target);
  bool good = true;
  try {
    if (slab.chunk.full > 0) {
      good =
          read_chunk(slab.chunk, static_cast<std::int64_t>(size_of(entry.dtype)), to, slab.bytes);
    } else {
      for (const auto& [begin, bytes, at] : runs_of(slab))
        file_.read_at(entry.offset + begin, to + at, bytes);
    }
  } catch (const Error& e) {
    fail(fmt::format("cannot be read: {}", e.what()));
  }
  if (!good || hash64(target, static_cast<std::size_t>(slab.bytes)) != slab.hash)
    fail(fmt::format("is damaged: {}, bytes {} to {}, does not match its checksum", entry.path,
                     slab.begin, slab.end() - 1));
}

bool CheckpointFile::read_chunk(const Chunk& chunk, std::int64_t element, std::byte* to,
                                std::int64_t bytes) const {
  std::vector<std::byte> stored(static_cast<std::size_t>(chunk.bytes));
  file_.read_at(chunk.at, stored.data(), chunk.bytes);
  if (hash64(stored.data(), stored.size()) != chunk.hash) return false;
  inflate_and_unshuffle(stored, to, bytes, chunk.full, element);
  return true;
}

const DatasetEntry& CheckpointFile::require(const std::string& dataset) const {
  const auto* entry = manifest_.find(dataset);
  if (!entry) fail(fmt::format("has no data set {}", dataset));
  return *entry;
}

void CheckpointFile::fail(const std::string& how) const {
  throw CheckpointError(
      fmt::format("checkpoint {} {}. Nothing was loaded. Use another checkpoint: --resume without "
                  "a file takes the newest intact one of the run folder",
                  path_.string(), how));
}

}  // namespace lockstep
