#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace lockstep {

/// The bytes of a file, one after another, decompressed on the way if the file is gzip (found by
/// its first two bytes; a file named .gz must be gzip). Memory: two small buffers, whatever the
/// file says. Every fault is an InputError naming the file and the place.
class ByteSource {
 public:
  /// Throws InputError if the file is missing, a folder, not a regular file or cannot be opened.
  explicit ByteSource(const std::filesystem::path& file);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills `out` as far as the data reach; returns the bytes written, less than out.size() only at
  /// the end. Reading past the last byte also checks gzip's checksum. Throws InputError if the file
  /// is damaged or ends inside a gzip stream.
  std::size_t read(std::span<std::byte> out);

  /// Bytes of (decompressed) data handed out so far.
  [[nodiscard]] std::int64_t offset() const noexcept;
  /// The most bytes of data the file can hold, judged by its size on disk alone: exact for a plain
  /// file, for gzip its size times deflate's greatest ratio (1032, zlib's technical notes).
  [[nodiscard]] std::int64_t largest_possible_size() const noexcept;
  [[nodiscard]] std::int64_t file_bytes() const noexcept;
  [[nodiscard]] bool compressed() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
