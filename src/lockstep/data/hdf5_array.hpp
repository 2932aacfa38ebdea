#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// One data set of an HDF5 file, open for reading rows of its leading dimension. Numbers only: f32,
/// f64, u8, i32 and i64 of this machine's byte order, laid out in one piece, are read with pread
/// and without HDF5's lock; every other type, chunks and filters through HDF5. Any thread may read
/// at any time.
class Hdf5Array {
 public:
  /// Opens data set `name` ("train/features") of `file`; HDF5 may keep `cache_bytes` of decoded
  /// chunks, and always room for one row of them. Throws InputError if the file is missing, no HDF5
  /// file or truncated, has no such data set (naming those it has), or it is not of numbers or has
  /// no dimension.
  Hdf5Array(const std::filesystem::path& file, const std::string& name,
            std::int64_t cache_bytes = std::int64_t{1} << 26U);
  ~Hdf5Array();

  [[nodiscard]] const Shape& shape() const noexcept;  ///< [N, ...]
  [[nodiscard]] std::int64_t rows() const noexcept { return shape()[0]; }
  [[nodiscard]] std::int64_t row_elements() const noexcept;
  [[nodiscard]] bool integers() const noexcept;
  [[nodiscard]] bool bytes() const noexcept;  ///< u8
  /// Rows that are decoded together: of a chunk; 1 where there are none.
  [[nodiscard]] std::int64_t chunk_rows() const noexcept;
  /// "train/features of heat.h5, f32 [1000, 3]".
  [[nodiscard]] const std::string& description() const noexcept;

  /// Rows [begin, end), converted. `out` has room for exactly them. Allocates nothing of its own.
  /// Throws InputError if they cannot be read.
  void read(std::int64_t begin, std::int64_t end, std::span<float> out) const;
  void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const;
  void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const;

  /// Throws InputError if somebody has written to the file since it was opened. A file put in its
  /// place under the same name does no harm: the old one stays open.
  void expect_unchanged() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
