#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>

// Convolutions of sequences [N,C,L] and volumes [N,C,D,H,W], and transposed ones; on any device.
// The bias may be undefined. All throw ShapeError, with the shapes, if these do not match. 16 bits
// as in conv2d (conv.hpp).

namespace lockstep {

/// x[N,C,L] * weight[O,C/groups,k] + bias[O]; extents as conv2d's.
[[nodiscard]] Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias,
                              const Conv1dOptions& options = {});

/// x[N,C,D,H,W] * weight[O,C/groups,kd,kh,kw] + bias[O].
[[nodiscard]] Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias,
                              const Conv3dOptions& options = {});

/// Of `dims` spatial dimensions; output_padding is below stride or dilation.
template <std::size_t dims>
struct ConvTransposeOptions {
  Extents<dims> stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
};

/// The gradient of a convolution by its input, as an operation: x[N,C,L], weight[C,O/groups,k],
/// bias[O] -> [N,O,OL], OL = (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
[[nodiscard]] Variable conv_transpose1d(const Variable& x, const Variable& weight,
                                        const Variable& bias,
                                        const ConvTransposeOptions<1>& options = {});
[[nodiscard]] Variable conv_transpose2d(const Variable& x, const Variable& weight,
                                        const Variable& bias,
                                        const ConvTransposeOptions<2>& options = {});
[[nodiscard]] Variable conv_transpose3d(const Variable& x, const Variable& weight,
                                        const Variable& bias,
                                        const ConvTransposeOptions<3>& options = {});

}  // namespace lockstep
