#pragma once
#include <filesystem>
#include <string>

#include <lockstep/data/files/data_file.hpp>
#include <lockstep/data/files/raw_numbers.hpp>
#include <lockstep/data/files/stored_array.hpp>

namespace lockstep {

/// An array written by numpy.save, read with pread: format versions 1 to 3 (numpy.lib.format);
/// float16, float32, float64, bool or integers, in either byte order. In Fortran order the numbers
/// of a row are scattered, and each takes a read of its own: read many rows at a time.
class NpyArray final : public StoredArray {
 public:
  /// Throws InputError if the file is missing, not a .npy file, truncated, of another kind, or has
  /// bytes left over.
  explicit NpyArray(const std::filesystem::path& file);

  [[nodiscard]] const Shape& shape() const noexcept override { return shape_; }
  [[nodiscard]] bool integers() const noexcept override { return is_integer(type_); }
  [[nodiscard]] bool bytes() const noexcept override { return type_ == StoredType::u8; }
  [[nodiscard]] const std::string& description() const noexcept override { return description_; }

  void read(std::int64_t begin, std::int64_t end, std::span<float> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const override;
  void expect_unchanged() const override { file_.expect_unchanged(); }

 private:
  template <class T>
  void read_columns(std::int64_t begin, std::span<T> out) const;
  template <class T>
  void read_rows(std::int64_t begin, std::int64_t end, std::span<T> out) const;

  DataFile file_;
  StoredType type_ = StoredType::f32;
  ByteOrder order_ = ByteOrder::little;
  bool fortran_order_ = false;
  Shape shape_;
  std::int64_t offset_ = 0;  ///< offset of the first number
  std::string description_;
};

}  // namespace lockstep
