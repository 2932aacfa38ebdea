#include <lockstep/checkpoint/checkpoint_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>

namespace lockstep {
namespace {

constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";

}  // namespace

CheckpointFile::CheckpointFile(std::filesystem::path path) : path_(std::move(path)) {
  try {
    file_ = File::open_for_reading(path_);
    const auto size = file_.size();
    Header::Block block{};
    file_.read_at(0, block.data(), std::min(size, Header::bytes));
    if (std::string_view(block.data(), block.size()).starts_with(hdf5_signature))
      fail("is an HDF5 file, but not a checkpoint: Lockstep's header is not in front");
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
  auto tensor = Tensor::empty(entry.shape, entry.dtype);
  for (const auto& slab : entry.slabs)
    check_slab(entry, slab, static_cast<std::byte*>(tensor.data()) + slab.begin);
  return tensor;
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

void CheckpointFile::verify(const DatasetEntry& entry) const {
  std::vector<std::byte> buffer;
  for (const auto& slab : entry.slabs) {
    buffer.resize(static_cast<std::size_t>(slab.bytes));
    check_slab(entry, slab, buffer.data());
  }
}

void CheckpointFile::check_slab(const DatasetEntry& entry, const Slab& slab, void* target) const {
  try {
    file_.read_at(entry.offset + slab.begin, target, slab.bytes);
  } catch (const Error& e) {
    fail(fmt::format("cannot be read: {}", e.what()));
  }
  if (hash64(target, static_cast<std::size_t>(slab.bytes)) != slab.hash)
    fail(fmt::format("is damaged: {}, bytes {} to {}, does not match its checksum", entry.path,
                     slab.begin, slab.begin + slab.bytes - 1));
}

const DatasetEntry& CheckpointFile::require(const std::string& dataset) const {
  const auto* entry = manifest_.find(dataset);
  if (!entry) fail(fmt::format("has no data set {}", dataset));
  return *entry;
}

void CheckpointFile::fail(const std::string& how) const {
  throw CheckpointError(fmt::format(
      "checkpoint {} {}. Nothing was loaded; a plain --resume takes the newest good checkpoint of "
      "the run folder",
      path_.string(), how));
}

}  // namespace lockstep
