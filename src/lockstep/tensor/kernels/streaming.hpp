#pragma once
// Stores that go around the processor's caches, on x86; elsewhere ordinary ones.
#include <Kokkos_Macros.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/tensor/tensor.hpp>

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <immintrin.h>
#define LOCKSTEP_STREAMING_STORES
#endif

namespace lockstep::streaming {

/// Bytes that `store` writes, and their alignment: a line of the cache.
inline constexpr std::size_t line = 64;

KOKKOS_INLINE_FUNCTION bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % line == 0;
}

/// Copies a line from `source` to `target`, which is aligned. Other threads see it after finish().
KOKKOS_INLINE_FUNCTION void store(void* target, const void* source) {
#if defined(LOCKSTEP_STREAMING_STORES) && defined(__AVX512F__)
  __m512i whole;
  std::memcpy(&whole, source, sizeof whole);
  _mm512_stream_si512(static_cast<__m512i*>(target), whole);
#elif defined(LOCKSTEP_STREAMING_STORES) && defined(__AVX__)
  __m256i halves[2];
  std::memcpy(halves, source, sizeof halves);
  for (int i = 0; i < 2; ++i) _mm256_stream_si256(static_cast<__m256i*>(target) + i, halves[i]);
#elif defined(LOCKSTEP_STREAMING_STORES)
  __m128i quarters[4];
  std::memcpy(quarters, source, sizeof quarters);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(static_cast<__m128i*>(target) + i, quarters[i]);
#else
  std::memcpy(target, source, line);
#endif
}

KOKKOS_INLINE_FUNCTION void finish() {
#if defined(LOCKSTEP_STREAMING_STORES)
  _mm_sfence();
#endif
}

/// Whether a result is so large that little of it would be found in cache by who reads it next: a
/// core's share of the last cache is far below 32 MiB on servers.
inline bool worth_it(const Tensor& result) { return result.bytes() >= std::size_t{32} << 20U; }

}  // namespace lockstep::streaming
