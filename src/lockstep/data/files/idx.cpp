#include <lockstep/data/files/idx.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/data/files/byte_source.hpp>

namespace lockstep {
namespace {

constexpr std::uint32_t magic_u8 = 0x00000800U;  // plus the number of dimensions
constexpr std::size_t piece_bytes = std::size_t{1} << 20U;
// for gzip data the first allocation; beyond it the tensor doubles as data arrive
constexpr std::int64_t first_bytes = std::int64_t{64} << 20U;

std::uint32_t big_endian(std::span<const std::byte, 4> b) {
  std::uint32_t value = 0;
  for (const std::byte byte : b) value = (value << 8U) | static_cast<std::uint32_t>(byte);
  return value;
}

std::uint32_t read_word(ByteSource& source, const std::string& name, const char* what) {
  std::array<std::byte, 4> word{};
  const auto at = source.offset();
  if (source.read(word) < word.size()) {
    throw InputError(fmt::format(
        "data file {} is truncated: its header should hold the {} at bytes {} to {}, but the data "
        "end at byte {}. Get a fresh copy of the file.",
        name, what, at, at + 3, source.offset()));
  }
  return big_endian(word);
}

const char* kind_of(int dims) { return dims == 1 ? "labels" : "images"; }

void check_magic(ByteSource& source, const std::string& name, int dims) {
  const std::uint32_t expected = magic_u8 + static_cast<std::uint32_t>(dims);
  const std::uint32_t found = read_word(source, name, "magic number");
  if (found == expected) return;
  std::string remedy = "This is not an IDX file of unsigned bytes: check data.path.";
  if (found == magic_u8 + 1 || found == magic_u8 + 3) {
    remedy = fmt::format("This file holds {}, not {}: were two files swapped?",
                         kind_of(static_cast<int>(found - magic_u8)), kind_of(dims));
  }
  throw InputError(
      fmt::format("data file {}: byte 0 should hold the magic number {:08x} ({}), found {:08x}. {}",
                  name, expected, kind_of(dims), found, remedy));
}

// The product of the extents; nothing if it exceeds any file.
std::optional<std::int64_t> product(const std::vector<std::int64_t>& extents) {
  constexpr std::int64_t limit = std::int64_t{1} << 60U;
  std::int64_t total = 1;
  for (const auto extent : extents) {
    if (extent > 0 && total > limit / extent) return std::nullopt;
    total *= extent;
  }
  return total;
}

InputError cut_short(const std::string& name, const ByteSource& source,
                     const std::vector<std::int64_t>& extents, std::int64_t header) {
  return InputError(fmt::format(
      "data file {} is truncated: its header announces {} bytes from byte {} on, but the data end "
      "at byte {}. Get a fresh copy of the file.",
      name, fmt::join(extents, " x "), header, source.offset()));
}

// A flat u8 tensor of `total` bytes read from `source`, grown as they arrive.
Tensor read_bytes(ByteSource& source, const std::string& name,
                  const std::vector<std::int64_t>& extents, std::int64_t total) {
  const std::int64_t header = source.offset();
  Tensor data =
      Tensor::empty({source.compressed() ? std::min(total, first_bytes) : total}, DType::u8);
  std::vector<std::uint8_t> piece(std::min(static_cast<std::size_t>(total), piece_bytes));
  for (std::int64_t done = 0; done < total;) {
    const std::int64_t wanted = std::min<std::int64_t>(total - done, piece_bytes);
    const auto got = static_cast<std::int64_t>(source.read(
        std::as_writable_bytes(std::span(piece)).first(static_cast<std::size_t>(wanted))));
    if (got < wanted) throw cut_short(name, source, extents, header);
    if (done + got > data.numel()) {
      Tensor larger = Tensor::empty({std::min(total, 2 * data.numel())}, DType::u8);
      larger.slice(0, done).copy_from(data.slice(0, done));
      data = larger;
    }
    data.slice(done, done + got)
        .copy_from_host(std::span<const std::uint8_t>(piece).first(static_cast<std::size_t>(got)));
    done += got;
  }
  return data;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& file, int dims) {
  const std::string name = file.string();
  ByteSource source(file);
  check_magic(source, name, dims);
  std::vector<std::int64_t> extents;
  for (int d = 0; d < dims; ++d) {
    const auto at = source.offset();
    extents.push_back(read_word(source, name, "size"));
    if (extents.back() == 0) {
      throw InputError(fmt::format(
          "data file {}: the size at byte {} is 0, so the file holds no {}. Check data.path.", name,
          at, kind_of(dims)));
    }
  }

  const std::int64_t header = source.offset();
  const auto total = product(extents);
  const std::int64_t possible = source.largest_possible_size() - header;
  if (!total || *total > possible) {
    if (!source.compressed()) {
      throw InputError(fmt::format(
          "data file {} is truncated or its header is wrong: bytes 4 to {} announce {} bytes of "
          "data, the file has {} after its header. Get a fresh copy of the file.",
          name, header - 1, fmt::join(extents, " x "), source.file_bytes() - header));
    }
    throw InputError(fmt::format(
        "data file {}: its header is wrong: bytes 4 to {} announce {} bytes of data, but {} bytes "
        "of gzip cannot hold more than {}. Get a fresh copy of the file.",
        name, header - 1, fmt::join(extents, " x "), source.file_bytes(), possible));
  }

  const Tensor data = read_bytes(source, name, extents, *total);
  std::byte extra{};
  if (source.read(std::span(&extra, 1)) != 0) {
    throw InputError(fmt::format(
        "data file {}: its header announces {} bytes, so the data should end at byte {}, but more "
        "follow. Get a fresh copy of the file.",
        name, fmt::join(extents, " x "), header + *total));
  }
  return data.reshape(Shape(std::span<const std::int64_t>(extents)));
}

}  // namespace lockstep
