#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace lockstep {

/// The bytes of a file in order. A gzip file (recognized by its first two bytes; a file named .gz
/// must be one) is decompressed on the way. Memory: two small buffers, whatever the file's
/// contents. Every fault is an InputError naming the file and the place.
class ByteSource {
 public:
  /// Throws InputError if the file is missing, is a folder or another irregular file, or cannot be
  /// opened.
  explicit ByteSource(const std::filesystem::path& file);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills `out` as far as the data reach. Returns the bytes written, less than out.size() only at
  /// the end. Reading past the last byte also checks gzip's checksum. Throws InputError if the file
  /// is damaged or ends inside a gzip stream.
  std::size_t read(std::span<std::byte> out);

  /// Bytes of (decompressed) data handed out so far.
  [[nodiscard]] std::int64_t offset() const noexcept;
  /// An upper limit of the file's data in bytes, from its size on disk alone: exact for a plain
  /// file; for gzip its size times deflate's greatest ratio (1032, zlib's technical notes).
  [[nodiscard]] std::int64_t largest_possible_size() const noexcept;
  [[nodiscard]] std::int64_t file_bytes() const noexcept;
  [[nodiscard]] bool compressed() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
