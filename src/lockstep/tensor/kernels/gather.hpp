#pragma once
#include <lockstep/tensor/tensor.hpp>

// Rows picked by index: what turns samples kept as bytes into a batch. `indices` is i64 [n], each
// in [0, rows of the source) (the caller checks; it has them on the host), on the source's device.

namespace lockstep {

/// out[i, ...] = (images[indices[i], ...] / 255 - mean) / std, each operation rounded to float32,
/// as torchvision's ToTensor and Normalize do it.
/// images u8 [N, ...], out f32 [n, ...] of as many elements a row. Throws ShapeError.
void gather_normalise(const Tensor& images, const Tensor& indices, float mean, float std,
                      const Tensor& out);

/// out[i] = labels[indices[i]]. labels u8 [N], out i64 [n]. Throws ShapeError.
void gather_labels(const Tensor& labels, const Tensor& indices, const Tensor& out);

}  // namespace lockstep
