#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// `bytes` of elements of `element` bytes, and zeros to `full` bytes behind them, as HDF5's filters
/// shuffle and deflate leave a chunk: every HDF5 reads it. Nothing but entropy coding, since what
/// there is to save in weights are the exponents; repeats are looked for no further than one byte.
/// Throws Error where memory is short.
[[nodiscard]] std::vector<std::byte> shuffle_and_deflate(const std::byte* data, std::int64_t bytes,
                                                         std::int64_t full, std::int64_t element);

/// The first `bytes` of the `full` that this makes, into `to`. Throws Error if it does not.
void inflate_and_unshuffle(const std::vector<std::byte>& stored, std::byte* to, std::int64_t bytes,
                           std::int64_t full, std::int64_t element);

}  // namespace lockstep
