#pragma once
#include <cstdint>

#include <lockstep/tensor/dtype.hpp>

namespace lockstep {

/// Properties of a slab's bytes, found before they are written.
struct SlabSummary {
  std::uint64_t hash = 0;  ///< XXH3, 64 bits
  bool finite = true;      ///< no infinity, no NaN
};

/// One pass over `bytes` bytes at `data`, whole elements of `dtype` on the host. The check for
/// finite values costs a fraction of the checksum, because both use each block while it is in
/// cache.
[[nodiscard]] SlabSummary summarise(const void* data, std::int64_t bytes, DType dtype);

/// Copies them to `target` in the same pass. No thread may write to `data` meanwhile, or the
/// checksum would not be the copy's.
[[nodiscard]] SlabSummary copy_and_summarise(const void* data, void* target, std::int64_t bytes,
                                             DType dtype);

}  // namespace lockstep
