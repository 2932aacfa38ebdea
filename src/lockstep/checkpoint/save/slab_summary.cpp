#include <lockstep/checkpoint/save/slab_summary.hpp>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/base/hash.hpp>
#include <lockstep/tensor/finite.hpp>

namespace lockstep {
namespace {

// Twice this size fits into the first-level cache of every processor.
constexpr std::int64_t block_bytes = std::int64_t{16} << 10;

/// Calls `visit(offset, bytes)` with each block after checking it.
template <class Visit>
SlabSummary summarise_blocks(const std::byte* from, std::int64_t bytes, DType dtype,
                             const Visit& visit) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  Hasher hasher;
  bool finite = true;
  for (std::int64_t at = 0; at < bytes; at += block_bytes) {
    const std::int64_t size = std::min(block_bytes, bytes - at);
    hasher.update(from + at, static_cast<std::size_t>(size));
    finite = all_finite(from + at, size / element, dtype) && finite;
    visit(at, size);
  }
  return {hasher.digest(), finite};
}

/// Copies a cached block with stores that bypass the caches, and fetches the next block meanwhile.
/// So memory is read while it is written, and hashing finds the block in cache. 256 MiB take 13 ms,
/// 19 ms without the prefetch; a memcpy takes 15 to 17 ms (Zen 5, one core).
void copy_past_caches(std::byte* to, const std::byte* from, std::int64_t bytes) {
#if defined(__SSE2__)
  constexpr std::int64_t vector = sizeof(__m128i), line = 64;
  std::int64_t whole = bytes / line * line;
  if (reinterpret_cast<std::uintptr_t>(to) % vector != 0) whole = 0;
  for (std::int64_t at = 0; at < whole; at += line) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + block_bytes), _MM_HINT_T0);
    for (std::int64_t in_line = at; in_line < at + line; in_line += vector) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + in_line));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + in_line), value);
    }
  }
#else
  constexpr std::int64_t whole = 0;
#endif
  std::memcpy(to + whole, from + whole, static_cast<std::size_t>(bytes - whole));
}

/// A fence, before another thread may read these stores.
void end_copies() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace

SlabSummary summarise(const void* data, std::int64_t bytes, DType dtype) {
  return summarise_blocks(static_cast<const std::byte*>(data), bytes, dtype,
                          [](std::int64_t, std::int64_t) {});
}

SlabSummary copy_and_summarise(const void* data, void* target, std::int64_t bytes, DType dtype) {
  const auto* from = static_cast<const std::byte*>(data);
  auto* to = static_cast<std::byte*>(target);
  const SlabSummary summary = summarise_blocks(
      from, bytes, dtype,
      [&](std::int64_t at, std::int64_t size) { copy_past_caches(to + at, from + at, size); });
  end_copies();
  return summary;
}

}  // namespace lockstep
