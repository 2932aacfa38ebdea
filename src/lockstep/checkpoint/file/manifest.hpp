#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep {

/// How a slab of a compressed data set lies in the file: an HDF5 chunk, shuffled and deflated.
struct Chunk {
  std::int64_t full = 0;   ///< bytes that it makes: the slab's, then zeros; 0: it is no chunk
  std::int64_t at = 0;     ///< in the file
  std::int64_t bytes = 0;  ///< there
  std::uint64_t hash = 0;  ///< XXH3, 64 bits, of those

  /// For packed().
  static auto fields(auto& self) { return std::tie(self.full, self.at, self.bytes, self.hash); }
};

/// Bytes of one data set, written by one rank and covered by one checksum: a run of them or, of a
/// tensor that is not cut along its first dimension, several of equal length at equal distances.
struct Slab {
  std::int64_t begin = 0;   ///< first byte, counted from the data set's first
  std::int64_t bytes = 0;   ///< of all runs
  int owner = 0;            ///< rank that writes it; not stored
  std::uint64_t hash = 0;   ///< XXH3, 64 bits, of the runs end to end
  std::int64_t run = 0;     ///< bytes of each of several runs; 0: there is one
  std::int64_t stride = 0;  ///< from the beginning of a run to the next one's
  std::int64_t local = 0;   ///< where it begins in the tensor of a rank that holds it; not stored
  Chunk chunk = {};
  [[nodiscard]] std::int64_t run_bytes() const noexcept { return run == 0 ? bytes : run; }
  /// Behind its last byte, counted as `begin` is.
  [[nodiscard]] std::int64_t end() const noexcept {
    return run == 0 ? begin + bytes : begin + (bytes / run - 1) * stride + run;
  }
};

/// One data set of the file, contiguous or, if its slabs are chunks, compressed. The slabs cover
/// each of its bytes once; those of a replicated tensor in order.
struct DatasetEntry {
  std::string path;  ///< "/model/conv1.weight"
  DType dtype = DType::u8;
  bool text = false;        ///< a string of shape[0] bytes (dtype u8) rather than an array
  Shape shape;              ///< global
  std::int64_t offset = 0;  ///< in the file; 0 for an empty or a compressed data set
  std::vector<Slab> slabs;
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return shape.numel() * static_cast<std::int64_t>(size_of(dtype));
  }
  [[nodiscard]] bool is_compressed() const noexcept {
    return !slabs.empty() && slabs.front().chunk.full > 0;
  }
  /// In the file.
  [[nodiscard]] std::int64_t stored_bytes() const noexcept;
  /// Of the model or its optimizer; a metric's total, say, may be what it likes.
  [[nodiscard]] bool is_state() const noexcept { return !path.starts_with("/train/"); }
};

/// A run of bytes of the file.
struct Extent {
  std::int64_t offset = 0, bytes = 0;
};

/// The list of everything in a checkpoint file, in the order of saving, with the checksums. Its
/// text is the data set /manifest; the header says where that lies.
struct Manifest {
  std::uint64_t structure_hash = 0;  ///< over structure_extents(), in order
  std::vector<DatasetEntry> datasets;

  /// The length of the text does not depend on the hashes.
  [[nodiscard]] std::string to_text() const;
  /// Throws Error for text that to_text did not make. Slabs come without owners.
  [[nodiscard]] static Manifest parse(std::string_view text);

  [[nodiscard]] const DatasetEntry* find(std::string_view path) const noexcept;
  /// The oldest format that has all of this.
  [[nodiscard]] int format() const noexcept;
};

/// The first bytes of the file, before HDF5's own: HDF5 calls them the user block and skips them.
/// Plain text, the last line a checksum of the rest, so that the file can be judged without HDF5,
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

/// What of the file is neither header, nor manifest, nor a data set's bytes: HDF5's own structure
/// and its gaps. Throws Error if the parts overlap or reach beyond the file.
[[nodiscard]] std::vector<Extent> structure_extents(const Header& header, const Manifest& manifest);

}  // namespace lockstep
