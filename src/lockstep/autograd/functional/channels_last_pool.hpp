#pragma once
#include <optional>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/pool/channels_last_pool.hpp>

// Private to pool.cpp: pools of images with channels last, without copies in NCHW.

namespace lockstep::detail {

/// Whether x is in channel blocks on a GPU or its stand-in.
[[nodiscard]] bool is_channels_last(const Variable& x);

/// Of such an x, to `shape` [N,C,OH,OW]: with channels last, or plain if that is one pixel.
[[nodiscard]] Variable channels_last_max_pool(const Variable& x, const ImageWindows& windows,
                                              const Shape& shape);
[[nodiscard]] Variable channels_last_avg_pool(const Variable& x,
                                              const std::optional<AveragePool>& pool,
                                              const Shape& shape);

}  // namespace lockstep::detail
