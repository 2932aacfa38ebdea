#include <lockstep/checkpoint/slab_summary.hpp>

#include <algorithm>
#include <cstddef>

#include <lockstep/base/hash.hpp>
#include <lockstep/tensor/finite.hpp>

namespace lockstep {
namespace {

// Fits into the second-level cache of every processor, beside what else is there.
constexpr std::int64_t block_bytes = std::int64_t{64} << 10;

}  // namespace

SlabSummary summarise(const void* data, std::int64_t bytes, DType dtype) {
  const auto* from = static_cast<const std::byte*>(data);
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  Hasher hasher;
  bool finite = true;
  for (std::int64_t at = 0; at < bytes; at += block_bytes) {
    const std::int64_t block = std::min(block_bytes, bytes - at);
    hasher.update(from + at, static_cast<std::size_t>(block));
    finite = all_finite(from + at, block / element, dtype) && finite;
  }
  return {hasher.digest(), finite};
}

}  // namespace lockstep
