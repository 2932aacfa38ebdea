#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep {

/// Location of a slab of a compressed data set in the file: an HDF5 chunk, shuffled and deflated.
struct Chunk {
  std::int64_t full = 0;   ///< uncompressed size: the slab's bytes, then zeros; 0: not a chunk
  std::int64_t at = 0;     ///< offset in the file
  std::int64_t bytes = 0;  ///< size in the file
  std::uint64_t hash = 0;  ///< XXH3, 64 bits, of the compressed bytes

  /// Argument of packed().
  static auto fields(auto& self) { return std::tie(self.full, self.at, self.bytes, self.hash); }
};

/// Bytes of one data set, written by one rank and covered by one checksum. A slab is one run of
/// bytes. If the tensor is not cut along its first dimension, it is several runs of equal length
/// and distance.
struct Slab {
  std::int64_t begin = 0;   ///< first byte, counted from the data set's first
  std::int64_t bytes = 0;   ///< total over all runs
  int owner = 0;            ///< rank that writes it; not stored
  std::uint64_t hash = 0;   ///< XXH3, 64 bits, of the runs end to end
  std::int64_t run = 0;     ///< bytes of each of several runs; 0: a single run
  std::int64_t stride = 0;  ///< from the beginning of a run to the beginning of the next
  std::int64_t local = 0;   ///< offset in its owner's tensor; not stored
  std::size_t region = 0;   ///< the ranks' region that it is cut from (holders_of); not stored
  Chunk chunk = {};
  [[nodiscard]] std::int64_t run_bytes() const noexcept { return run == 0 ? bytes : run; }
  /// Offset after its last byte, counted as `begin` is.
  [[nodiscard]] std::int64_t end() const noexcept {
    return run == 0 ? begin + bytes : begin + (bytes / run - 1) * stride + run;
  }
};

/// One data set of the file: contiguous or, if its slabs are chunks, compressed. The slabs cover
/// each byte once; the slabs of a replicated tensor are in order.
struct DatasetEntry {
  std::string path;  ///< "/model/conv1.weight"
  DType dtype = DType::u8;
  bool text = false;        ///< a string of shape[0] bytes (dtype u8) instead of an array
  Shape shape;              ///< global shape
  std::int64_t offset = 0;  ///< offset in the file; 0 for an empty or a compressed data set
  std::vector<Slab> slabs;
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return shape.numel() * static_cast<std::int64_t>(size_of(dtype));
  }
  [[nodiscard]] bool is_compressed() const noexcept {
    return !slabs.empty() && slabs.front().chunk.full > 0;
  }
  /// Size in the file.
  [[nodiscard]] std::int64_t stored_bytes() const noexcept;
  /// Belongs to the model or its optimizer, whose elements must be finite. A metric's total need
  /// not be.
  [[nodiscard]] bool is_state() const noexcept { return !path.starts_with("/train/"); }
};

/// A run of bytes of the file.
struct Extent {
  std::int64_t offset = 0, bytes = 0;
};

/// The list of all contents of a checkpoint file, in the order of saving, with the checksums. Its
/// text is the data set /manifest; the header holds its location.
struct Manifest {
  std::uint64_t structure_hash = 0;  ///< over structure_extents(), in order
  std::vector<DatasetEntry> datasets;

  /// The length of the text does not depend on the hashes.
  [[nodiscard]] std::string to_text() const;
  /// Throws Error for text not made by to_text. Slabs come without owners.
  [[nodiscard]] static Manifest parse(std::string_view text);

  [[nodiscard]] const DatasetEntry* find(std::string_view path) const noexcept;
  /// The oldest format that can express this manifest.
  [[nodiscard]] int format() const noexcept;
};

/// The first bytes of the file, before HDF5's own: HDF5 calls them the user block and skips them.
/// Plain text; the last line is a checksum of the rest. So the file can be checked without HDF5,
/// which may crash on damaged files.
struct Header {
  static constexpr std::int64_t bytes = 512;
  static constexpr int newest_format = 4;  ///< docs/reference/checkpoint_format.md
  using Block = std::array<char, static_cast<std::size_t>(bytes)>;

  int format = newest_format;
  std::int64_t file_bytes = 0;
  Extent manifest;
  std::uint64_t manifest_hash = 0;

  [[nodiscard]] Block to_block() const;
  /// Throws Error with the end of a sentence that begins with the file's name: "is not a
  /// checkpoint", "was written in format 2 ...", "is damaged: ...".
  [[nodiscard]] static Header parse(const Block& block);
};

/// The bytes of the file outside header, manifest and data sets: HDF5's own structure and gaps.
/// Throws Error if parts overlap or reach beyond the file.
[[nodiscard]] std::vector<Extent> structure_extents(const Header& header, const Manifest& manifest);

}  // namespace lockstep
