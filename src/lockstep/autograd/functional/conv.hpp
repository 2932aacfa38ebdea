#pragma once
#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>

// Shapes are written [N, C, H, W]: samples, channels, height, width.

namespace lockstep {

/// x[N,C,H,W] * weight[O,C/groups,kh,kw] + bias[O] (bias may be undefined) -> [N,O,OH,OW],
/// OH = floor((H + 2 padding - dilation (kh - 1) - 1) / stride) + 1. Cross-correlation. x may be in
/// channel blocks; the result is if `layout` says so, it fits_channel_blocks, and no LayoutGuard
/// keeps images plain; on a GPU, where channels are last in blocks, only in 16 bits and if x and
/// the weight fit, too. On a GPU under Autocast, and of tensors that all have one 16-bit type, the
/// operands are multiplied, and the result stored, in 16 bits.
[[nodiscard]] Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                              const Conv2dOptions& options = {}, Layout layout = Layout::plain);

/// An image in channel blocks (tensor/kernels/conv/channel_blocks.hpp), or in plain layout; x
/// itself if it is so already. conv2d, batch_norm and elementwise operations take images in blocks,
/// all others throw. to_channel_blocks throws ShapeError unless x fits_channel_blocks.
[[nodiscard]] Variable to_channel_blocks(const Variable& x);
[[nodiscard]] Variable from_channel_blocks(const Variable& x);

/// relu(max_pool2d(channel_scale * conv2d(x))) in one pass over each sample, without ever storing
/// the convolution's output: 3 to 5 times faster than the parts on small images.
/// channel_scale: undefined, or [N,O] with elements >= 0 (the factors of dropout2d).
/// Computes the separate operations if conv2d_max_pool2d_supported(...) is false, on a device, and
/// if a LayoutGuard keeps images plain.
[[nodiscard]] Variable conv2d_max_pool2d_relu(const Variable& x, const Variable& weight,
                                              const Variable& bias, const Conv2dOptions& conv,
                                              const PoolOptions<2>& pool,
                                              const Tensor& channel_scale);

}  // namespace lockstep
