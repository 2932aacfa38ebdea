#pragma once
#include <array>
#include <cstdint>
#include <map>

#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// A file that HDF5 writes into memory, where no write can fail. After a failed write on a real
/// file system (disk full, a limit on file sizes) HDF5 1.10 keeps a file that it cannot close, and
/// crashes on it in MPI_Finalize. Sparse: only written pages take memory, so a file of any size can
/// be laid out before its data exist. HDF5's core driver is not sparse.
class Hdf5Image {
 public:
  /// Treatment of data set elements: a caller that writes them to the file in another way only
  /// needs their offsets.
  enum class Elements : std::uint8_t { kept, dropped };

  explicit Hdf5Image(Elements elements = Elements::kept) : elements_(elements) {}
  Hdf5Image(const Hdf5Image&) = delete;
  Hdf5Image& operator=(const Hdf5Image&) = delete;

  /// A new, empty HDF5 file in this image, made with two HDF5 property lists: file creation and
  /// file access (whose driver this sets). Once per image; the image must outlive it.
  [[nodiscard]] Hdf5Handle create(const Hdf5Handle& creation, const Hdf5Handle& access);

  /// Size of the whole file, written or not.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Unwritten bytes read as zero.
  void read_at(std::int64_t offset, void* target, std::int64_t bytes) const noexcept;
  void write_at(std::int64_t offset, const void* source, std::int64_t bytes);
  void resize(std::int64_t bytes) noexcept { size_ = bytes; }

  /// A run of bytes of the file.
  struct Extent {
    std::int64_t offset = 0, bytes = 0;
  };
  /// The offset of the last elements that HDF5 wrote.
  [[nodiscard]] Extent last_elements() const noexcept { return last_elements_; }
  void write_elements_at(std::int64_t offset, const void* source, std::int64_t bytes);

 private:
  static constexpr std::int64_t page_bytes = 4096;
  using Page = std::array<char, static_cast<std::size_t>(page_bytes)>;
  std::map<std::int64_t, Page> pages_;  // by number
  std::int64_t size_ = 0;
  Elements elements_;
  Extent last_elements_;
};

}  // namespace lockstep
