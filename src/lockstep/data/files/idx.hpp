#pragma once
#include <filesystem>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Reads an IDX file of unsigned bytes with `dims` dimensions, plain or gzip, into a u8 tensor on
/// the host: images have 3 dimensions [N, H, W], labels 1 [N]. Format: magic `00 00 08 <dims>`, one
/// big-endian u32 per extent, the bytes row-major (yann.lecun.com/exdb/mnist). The header is not
/// trusted: memory is allocated only up to the file's size, and for gzip only as the data arrive.
/// Throws InputError if the file is missing, a folder, damaged, truncated, of another kind, or has
/// bytes left over. The message names the file, the byte offset, the expected and found values, and
/// the remedy.
[[nodiscard]] Tensor read_idx(const std::filesystem::path& file, int dims);

}  // namespace lockstep
