#pragma once
#include <lockstep/tensor/tensor.hpp>

// Rows selected by index: makes a batch from samples in memory. `indices` is i64 [n], each in [0,
// rows of the source) (the caller checks; it has them on the host), on the source's device.

namespace lockstep {

/// The conversion of stored numbers to inputs: (x / divisor - mean[c]) / std[c], each operation
/// rounded to float32, as torchvision's ToTensor and Normalize do. c is the channel of the number:
/// a row of k C numbers has C channels of k neighbours.
struct ChannelScale {
  float divisor = 1;  ///< 255 for bytes that are pixels
  Tensor mean, std;   ///< f32 [C]
};

/// out[i, ...] = scaled source[indices[i], ...]. source u8 or f32 [N, ...], out f32 [n, ...] of as
/// many elements a row. Throws ShapeError.
void gather_normalise(const Tensor& source, const Tensor& indices, const ChannelScale& scale,
                      const Tensor& out);

/// x[i, ...] = scaled x[i, ...]; f32 [n, ...]. Throws ShapeError.
void normalise(const Tensor& x, const ChannelScale& scale);

/// x[i, ...] = x[i, ...] std[c] + mean[c], the inverse for numbers whose divisor is 1; f32 [n,
/// ...]. Throws ShapeError.
void denormalise(const Tensor& x, const ChannelScale& scale);

/// out[i, ...] = source[indices[i], ...], both of dtype f32 or i64. Throws ShapeError.
void gather_rows(const Tensor& source, const Tensor& indices, const Tensor& out);

}  // namespace lockstep
