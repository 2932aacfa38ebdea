#pragma once
// Non-temporal stores, which bypass the processor's caches, on x86 with GCC; elsewhere ordinary
// ones.
#include <Kokkos_Macros.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/tensor/tensor.hpp>

#if defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
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
#if defined(LOCKSTEP_STREAMING_STORES)
#if defined(__AVX512F__)
  using Vector [[gnu::vector_size(64)]] = long long;
#elif defined(__AVX__)
  using Vector [[gnu::vector_size(32)]] = long long;
#else
  using Vector [[gnu::vector_size(16)]] = long long;
#endif
  Vector parts[line / sizeof(Vector)];
  std::memcpy(parts, source, line);
  auto* to = static_cast<Vector*>(target);
  for (const Vector& part : parts) {
#if defined(__AVX512F__)
    __builtin_ia32_movntdq512(to++, part);
#elif defined(__AVX__)
    __builtin_ia32_movntdq256(to++, part);
#else
    __builtin_ia32_movntdq(to++, part);
#endif
  }
#else
  std::memcpy(target, source, line);
#endif
}

KOKKOS_INLINE_FUNCTION void finish() {
#if defined(LOCKSTEP_STREAMING_STORES)
  __builtin_ia32_sfence();
#endif
}

/// Whether a result is so large that its next reader would find little of it in cache: a core's
/// share of the last-level cache is far below 32 MiB on servers.
inline bool worth_it(const Tensor& result) { return result.bytes() >= std::size_t{32} << 20U; }

}  // namespace lockstep::streaming
