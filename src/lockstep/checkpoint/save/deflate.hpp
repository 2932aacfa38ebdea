#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Compresses `bytes` bytes of elements of `element` bytes, followed by zeros up to `full` bytes,
/// exactly as HDF5's shuffle and deflate filters do; every HDF5 reads it. Uses entropy coding and
/// matches of one byte only, since only the exponents of weights compress. Throws Error if memory
/// is short.
[[nodiscard]] std::vector<std::byte> shuffle_and_deflate(const std::byte* data, std::int64_t bytes,
                                                         std::int64_t full, std::int64_t element);

/// Writes the first `bytes` of the inflated `full` bytes to `to`. Throws Error if they cannot be
/// inflated.
void inflate_and_unshuffle(const std::vector<std::byte>& stored, std::byte* to, std::int64_t bytes,
                           std::int64_t full, std::int64_t element);

}  // namespace lockstep
