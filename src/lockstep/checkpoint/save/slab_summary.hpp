#pragma once
#include <cstdint>

#include <lockstep/tensor/dtype.hpp>

namespace lockstep {

/// What a save finds out about a slab's bytes before it writes them.
struct SlabSummary {
  std::uint64_t hash = 0;  ///< XXH3, 64 bits
  bool finite = true;      ///< no infinity, no NaN
};

/// One pass over `bytes` bytes at `data`, whole elements of `dtype` on the host: looking costs a
/// fraction of the checksum, because both see each block while it is in cache.
[[nodiscard]] SlabSummary summarise(const void* data, std::int64_t bytes, DType dtype);

/// Copies them to `target` in the same pass. Nobody may write to `data` meanwhile: then the
/// checksum would not be the copy's.
[[nodiscard]] SlabSummary copy_and_summarise(const void* data, void* target, std::int64_t bytes,
                                             DType dtype);

}  // namespace lockstep
