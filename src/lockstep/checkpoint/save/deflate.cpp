#include <lockstep/checkpoint/save/deflate.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include <lockstep/base/error.hpp>

// H5Zshuffle.c and H5Zdeflate.c of HDF5: all first bytes of the elements, then all second ones,
// ...; then zlib's format (RFC 1950).

namespace lockstep {
namespace {

constexpr int level = 1, memory_level = 9, window_bits = 15;

void shuffle(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t stride,
             std::int64_t element) {
  for (std::int64_t byte = 0; byte < element; ++byte) {
    for (std::int64_t i = 0; i < count; ++i) to[byte * stride + i] = from[i * element + byte];
  }
}

void unshuffle(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t stride,
               std::int64_t element) {
  for (std::int64_t byte = 0; byte < element; ++byte) {
    for (std::int64_t i = 0; i < count; ++i) to[i * element + byte] = from[byte * stride + i];
  }
}

Bytef* as_zlib(std::byte* data) { return reinterpret_cast<Bytef*>(data); }

}  // namespace

std::vector<std::byte> shuffle_and_deflate(const std::byte* data, std::int64_t bytes,
                                           std::int64_t full, std::int64_t element) {
  std::vector<std::byte> shuffled(static_cast<std::size_t>(full));
  shuffle(data, shuffled.data(), bytes / element, full / element, element);
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, window_bits, memory_level, Z_RLE) != Z_OK)
    throw Error("out of memory while compressing");
  std::vector<std::byte> stored(deflateBound(&stream, static_cast<uLong>(full)));
  stream.next_in = as_zlib(shuffled.data());
  stream.avail_in = static_cast<uInt>(full);
  stream.next_out = as_zlib(stored.data());
  stream.avail_out = static_cast<uInt>(stored.size());
  const int status = deflate(&stream, Z_FINISH);
  stored.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw Error(fmt::format("zlib cannot compress: status {}", status));
  stored.shrink_to_fit();
  return stored;
}

void inflate_and_unshuffle(const std::vector<std::byte>& stored, std::byte* to, std::int64_t bytes,
                           std::int64_t full, std::int64_t element) {
  std::vector<std::byte> shuffled(static_cast<std::size_t>(full));
  auto length = static_cast<uLongf>(full);
  const int status =
      uncompress(as_zlib(shuffled.data()), &length, reinterpret_cast<const Bytef*>(stored.data()),
                 static_cast<uLong>(stored.size()));
  if (status != Z_OK || length != static_cast<uLongf>(full))
    throw Error(fmt::format("zlib inflates {} bytes from {}, not {} (status {})", length,
                            stored.size(), full, status));
  unshuffle(shuffled.data(), to, bytes / element, full / element, element);
}

}  // namespace lockstep
