#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/io/file.hpp>

namespace lockstep {

/// A checkpoint's file while its bytes are written: HDF5's structure is there, and each data set
/// has its place. The header, which makes it a checkpoint, comes last.
class LaidOutFile {
 public:
  LaidOutFile() = default;
  /// Writes only the structure of `datasets` into `file`. Throws Error, FileError.
  LaidOutFile(const File& file, std::vector<DatasetEntry> datasets);

  [[nodiscard]] std::int64_t bytes() const noexcept { return header_.file_bytes; }
  [[nodiscard]] const std::vector<DatasetEntry>& datasets() const noexcept {
    return manifest_.datasets;
  }
  /// Offset of each data set in the file.
  [[nodiscard]] std::vector<std::int64_t> offsets() const;
  /// Whether these data sets have the same structure.
  [[nodiscard]] bool fits(const std::vector<DatasetEntry>& datasets) const;

  /// Writes manifest and header, once all data sets' bytes are there. `hashes`: those of each
  /// rank's slabs, in order. Throws Error, FileError.
  void finish(const File& file, const std::vector<std::vector<std::uint64_t>>& hashes);

 private:
  Manifest manifest_;
  Header header_;
};

}  // namespace lockstep
