#pragma once
#include <cstdint>
#include <span>
#include <string>

#include <lockstep/tensor/shape.hpp>

namespace lockstep {

/// Numbers [N, ...] in files, read by rows of the leading dimension: one row per sample. Any thread
/// may read at any time.
class StoredArray {
 public:
  virtual ~StoredArray() = default;

  [[nodiscard]] virtual const Shape& shape() const noexcept = 0;  ///< [N, ...]
  [[nodiscard]] virtual bool integers() const noexcept = 0;       ///< booleans are 0 and 1
  [[nodiscard]] virtual bool bytes() const noexcept = 0;          ///< u8
  /// "train/features of heat.h5, f32 [1000, 3]".
  [[nodiscard]] virtual const std::string& description() const noexcept = 0;

  /// Reads rows [begin, end), converted. `out` has exactly their size. Allocates nothing of its
  /// own. Throws InputError if they cannot be read.
  virtual void read(std::int64_t begin, std::int64_t end, std::span<float> out) const = 0;
  virtual void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const = 0;
  virtual void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const = 0;

  /// Throws InputError if one of its files was written to since it was opened.
  virtual void expect_unchanged() const = 0;

  [[nodiscard]] std::int64_t rows() const noexcept { return shape()[0]; }
  [[nodiscard]] std::int64_t row_elements() const noexcept {
    return rows() == 0 ? 0 : shape().numel() / rows();
  }

 protected:
  /// Throws Error if rows [begin, end) do not exist, or do not have `elements` numbers.
  void expect_rows(std::int64_t begin, std::int64_t end, std::int64_t elements) const;
};

}  // namespace lockstep
