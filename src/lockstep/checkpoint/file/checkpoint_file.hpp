#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// A checkpoint opened for reading, by its manifest and without HDF5: nothing is used before its
/// checksum has been verified, and HDF5 is not safe against damaged files. All errors are
/// CheckpointError with the file's name and a remedy.
class CheckpointFile {
 public:
  /// Checks header, size, manifest and HDF5's structure: everything but the data sets' bytes.
  explicit CheckpointFile(std::filesystem::path path);

  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return header_.file_bytes; }
  /// Hash of the whole file: equal for equal contents in an equal layout.
  [[nodiscard]] std::uint64_t hash() const noexcept { return header_.manifest_hash; }

  /// The data set as a tensor on the host (text: u8), each slab verified.
  [[nodiscard]] Tensor read(const DatasetEntry& entry) const;
  /// A region of a data set, as a tensor of the region's sizes. Reads and verifies only the slabs
  /// that overlap it.
  [[nodiscard]] Tensor read(const DatasetEntry& entry, const Region& region) const;
  /// Several regions in ascending order, read end to end into `part`, which is contiguous and on
  /// the host.
  void read(const DatasetEntry& entry, std::span<const Region> regions, const Tensor& part) const;
  /// Reads the slabs of `owner` into `whole`, the data set's tensor.
  void read_slabs(const DatasetEntry& entry, int owner, const Tensor& whole) const;
  /// Whether the bytes of a slab match its checksum. Reads them: a hole of the file reads as zeros.
  [[nodiscard]] bool has(const DatasetEntry& entry, const Slab& slab) const;
  /// The text of a text data set, or the only element of an i64 or f64 one. Throws if there is no
  /// such data set.
  [[nodiscard]] std::string text(const std::string& dataset) const;
  [[nodiscard]] std::int64_t integer(const std::string& dataset) const;
  [[nodiscard]] double real(const std::string& dataset) const;
  /// Verifies the data set's slabs and keeps nothing. Returns whether all its elements are finite.
  [[nodiscard]] bool verify(const DatasetEntry& entry) const;

 private:
  void read_slab(const DatasetEntry& entry, const Slab& slab, const std::vector<Run>& wanted,
                 std::byte* target) const;
  void check_slab(const DatasetEntry& entry, const Slab& slab, void* target) const;
  /// The first `bytes` of the inflated chunk; false if the stored bytes do not match their
  /// checksum.
  [[nodiscard]] bool read_chunk(const Chunk& chunk, std::int64_t element, std::byte* to,
                                std::int64_t bytes) const;
  [[nodiscard]] const DatasetEntry& require(const std::string& dataset) const;
  [[noreturn]] void fail(const std::string& how) const;

  std::filesystem::path path_;
  File file_;
  Header header_;
  Manifest manifest_;
};

}  // namespace lockstep
