#pragma once
// Vectors of floats for host kernels that must hold their accumulators in registers. GCC's and
// Clang's vector extensions: the same source for every -march; only operations that they lack
// (masks, compression) have an AVX-512 branch and a portable one. Private to the kernels' .cpp
// files.

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace lockstep::simd {

#if defined(__AVX512F__)
inline constexpr int width = 16;
inline constexpr int registers = 32;
#elif defined(__AVX__)
inline constexpr int width = 8;
inline constexpr int registers = 16;
#elif defined(__aarch64__)
inline constexpr int width = 4;
inline constexpr int registers = 32;
#else
inline constexpr int width = 4;
inline constexpr int registers = 16;
#endif

using Floats [[gnu::vector_size(width * sizeof(float))]] = float;
using Ints [[gnu::vector_size(width * sizeof(float))]] = std::int32_t;
using Bytes [[gnu::vector_size(width)]] = std::uint8_t;

/// No alignment needed by any load or store.
template <class Vector, class T>
inline Vector load(const T* source) {
  Vector v;
  std::memcpy(&v, source, sizeof v);
  return v;
}
inline Floats load(const float* source) { return load<Floats>(source); }

template <class Vector, class T>
inline void store(T* target, const Vector& v) {
  std::memcpy(target, &v, sizeof v);
}

inline Floats broadcast(float x) { return x - Floats{}; }
inline Ints broadcast(std::int32_t x) { return x - Ints{}; }

/// The first `count` lanes only, count <= width; the other lanes read as zero.
inline Floats load_partial(const float* source, std::int64_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), source);
#else
  if (count == width) return load(source);
  Floats v{};
  for (std::int64_t i = 0; i < count; ++i) v[i] = source[i];
  return v;
#endif
}
inline void store_partial(float* target, const Floats& v, std::int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(target, static_cast<__mmask16>((1U << count) - 1U), v);
#else
  if (count == width) return store(target, v);
  for (std::int64_t i = 0; i < count; ++i) target[i] = v[i];
#endif
}

/// Appends the lanes of a and b where `keep` is not zero to two lists of `size` elements; both need
/// room for a whole vector after their end. Returns the new size.
inline std::int64_t append_if(const Ints& keep, const Ints& a, std::int32_t* a_list,
                              const Floats& b, float* b_list, std::int64_t size) {
#if defined(__AVX512F__)
  const auto mask =
      _mm512_test_epi32_mask(reinterpret_cast<__m512i>(keep), reinterpret_cast<__m512i>(keep));
  _mm512_storeu_si512(a_list + size,
                      _mm512_maskz_compress_epi32(mask, reinterpret_cast<__m512i>(a)));
  _mm512_storeu_ps(b_list + size, _mm512_maskz_compress_ps(mask, b));
  return size + __builtin_popcount(mask);
#else
  for (int lane = 0; lane < width; ++lane) {
    a_list[size] = a[lane];
    b_list[size] = b[lane];
    size += keep[lane] != 0;
  }
  return size;
#endif
}

inline bool any_nan(const Floats& v) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) != 0;
#else
  const Ints unordered = v != v;
  std::int32_t any = 0;
  for (int lane = 0; lane < width; ++lane) any |= unordered[lane];
  return any != 0;
#endif
}

/// Sum of all lanes, in a fixed order.
inline float sum(const Floats& v) {
  float lanes[width];
  store(lanes, v);
  for (int half = width / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// Copies `count` floats in blocks of `Block`, one at least; may read and write up to Block - 1
/// beyond.
template <int Block>
inline void copy_blocks(const float* source, float* target, std::int64_t count) {
  std::int64_t i = 0;
  do {
    std::memcpy(target + i, source + i, Block * sizeof(float));
    i += Block;
  } while (i < count);
}

template <int Block>
struct Chunk;
template <>
struct Chunk<4> {
  using type [[gnu::vector_size(16)]] = float;
};
template <>
struct Chunk<8> {
  using type [[gnu::vector_size(32)]] = float;
};
template <>
struct Chunk<16> {
  using type [[gnu::vector_size(64)]] = float;
};

/// even[i] = source[2 i], odd[i] = source[2 i + 1] for `count` i, in blocks as copy_blocks; may
/// read 2 (Block - 1) beyond.
template <int Block>
inline void split_even_odd(const float* source, float* even, float* odd, std::int64_t count) {
  using Vector = typename Chunk<Block>::type;
  std::int64_t i = 0;
  do {
    const auto a = load<Vector>(source + 2 * i), b = load<Vector>(source + 2 * i + Block);
    [&]<int... L>(std::integer_sequence<int, L...>) {
      store(even + i, __builtin_shufflevector(a, b, 2 * L...));
      store(odd + i, __builtin_shufflevector(a, b, (2 * L + 1)...));
    }
    (std::make_integer_sequence<int, Block>());
    i += Block;
  } while (i < count);
}

/// Calls f.template operator()<Block>() with the block size that suits runs of `count` floats.
template <class F>
inline void with_block(std::int64_t count, F&& f) {
  if (count <= 4 || width == 4) {
    f.template operator()<4>();
  } else if (count <= 8 || width == 8) {
    f.template operator()<8>();
  } else {
    f.template operator()<16>();
  }
}

}  // namespace lockstep::simd
