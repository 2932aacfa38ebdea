#include <lockstep/checkpoint/slab_summary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <lockstep/base/hash.hpp>
#include <lockstep/tensor/finite.hpp>

namespace lockstep {
namespace {

// Fits into the second-level cache of every processor, beside what else is there.
constexpr std::int64_t block_bytes = std::int64_t{64} << 10;

/// `prepare(offset, bytes)` says where the bytes of a block are to be looked at.
template <class Prepare>
SlabSummary summarise_blocks(std::int64_t bytes, DType dtype, const Prepare& prepare) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  Hasher hasher;
  bool finite = true;
  for (std::int64_t at = 0; at < bytes; at += block_bytes) {
    const std::int64_t size = std::min(block_bytes, bytes - at);
    const std::byte* block = prepare(at, size);
    hasher.update(block, static_cast<std::size_t>(size));
    finite = all_finite(block, size / element, dtype) && finite;
  }
  return {hasher.digest(), finite};
}

}  // namespace

SlabSummary summarise(const void* data, std::int64_t bytes, DType dtype) {
  const auto* from = static_cast<const std::byte*>(data);
  return summarise_blocks(bytes, dtype, [&](std::int64_t at, std::int64_t) { return from + at; });
}

SlabSummary copy_and_summarise(const void* data, void* target, std::int64_t bytes, DType dtype) {
  const auto* from = static_cast<const std::byte*>(data);
  auto* to = static_cast<std::byte*>(target);
  return summarise_blocks(bytes, dtype, [&](std::int64_t at, std::int64_t size) {
    std::memcpy(to + at, from + at, static_cast<std::size_t>(size));
    return to + at;
  });
}

}  // namespace lockstep
