#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <lockstep/data/files/stored_array.hpp>
#include <lockstep/io/hdf5_elements.hpp>

namespace lockstep {

/// One data set of an HDF5 file, open for reading rows of numbers, or of booleans as h5py writes
/// them. Contiguous f32, f64, u8, i32, i64 and booleans in this machine's byte order are read with
/// pread and without HDF5's lock; every other type, chunks and filters through HDF5. A file put in
/// this one's place under the same name does no harm: the old one stays open.
class Hdf5Array final : public StoredArray {
 public:
  /// Opens data set `name` ("train/features") of `file`. HDF5 may cache `cache_bytes` of decoded
  /// chunks, and always one row of them. Throws InputError if the file is missing, truncated or not
  /// HDF5, or has no such data set (naming those it has). Likewise if the data set does not hold
  /// numbers, has no dimension, or has elements that are not stored (expect_elements).
  Hdf5Array(const std::filesystem::path& file, const std::string& name,
            std::int64_t cache_bytes = std::int64_t{1} << 26U,
            ExternalElements external = ExternalElements::refused);
  ~Hdf5Array() override;

  [[nodiscard]] const Shape& shape() const noexcept override;
  [[nodiscard]] bool integers() const noexcept override;
  [[nodiscard]] bool bytes() const noexcept override;
  [[nodiscard]] const std::string& description() const noexcept override;

  void read(std::int64_t begin, std::int64_t end, std::span<float> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const override;
  void expect_unchanged() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
