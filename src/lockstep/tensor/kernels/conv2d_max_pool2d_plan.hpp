#pragma once
// What forward and backward of conv2d_max_pool2d share: sizes, scratch memory, staging of a sample.
// Private to the two .cpp files.

#include <cstdint>

#include <lockstep/tensor/kernels/conv2d_max_pool2d.hpp>
#include <lockstep/tensor/kernels/simd.hpp>

namespace lockstep::detail {

struct ConvPoolPlan {
  ConvPoolPlan(const Shape& x, const Shape& weight, const Conv2dOptions& conv,
               const Pool2dOptions& pool);

  std::int64_t samples, channels, height, width;
  std::int64_t outputs, kernel_h, kernel_w, taps;  ///< taps = channels * kernel_h * kernel_w
  std::int64_t pad_h, pad_w;
  std::int64_t pool;                      ///< edge and stride of the pooling window
  std::int64_t pooled_h, pooled_w, area;  ///< area = pooled_h * pooled_w
  /// The part of the padded image that pooled windows see; floor() may leave out an edge.
  std::int64_t rows, columns;

  [[nodiscard]] std::int64_t sample_numel() const { return channels * height * width; }
  [[nodiscard]] std::int64_t staged_numel() const { return channels * rows * columns; }

  // Forward's arrangement of a sample: plane[s][c] holds the columns s, s + pool, s + 2 pool, ...
  // of channel c, its rows sorted by (row % pool, row / pool). Tap (c, i, j) of window element (a,
  // b) for all pooled pixels is then the run of `area` floats at plane[b + j][c] + row_offset(a +
  // i).
  [[nodiscard]] std::int64_t shifts() const { return pool + kernel_w - 1; }
  [[nodiscard]] std::int64_t rows_a_residue() const { return (rows + pool - 1) / pool; }
  [[nodiscard]] std::int64_t plane_stride() const { return pool * rows_a_residue() * pooled_w; }
  [[nodiscard]] std::int64_t row_offset(std::int64_t row) const {
    return (row % pool * rows_a_residue() + row / pool) * pooled_w;
  }
  /// One vector behind each shift takes what block copies spill.
  [[nodiscard]] std::int64_t shift_stride() const { return channels * plane_stride() + 16; }

  // Backward's arrangement: patch[ow][row][c][j] = image[c][row][ow + j], so that the window of the
  // convolution's output (oh, ow) is the run of window_numel floats at ow * strip + oh * pitch.
  [[nodiscard]] std::int64_t pitch() const { return channels * kernel_w; }
  [[nodiscard]] std::int64_t strip() const { return rows * pitch(); }
  [[nodiscard]] std::int64_t strips() const { return pool * pooled_w; }
  [[nodiscard]] std::int64_t window_numel() const { return kernel_h * pitch(); }
};

/// One sample's image with its padding, or a view of the tensor itself where there is none.
struct Image {
  const float* data;
  std::int64_t row_stride, channel_stride;
};

/// Sample n. Reading up to a vector beyond the end of a row is legal: `scratch` (staged_numel() +
/// 16 floats) is used where the tensor itself would not allow it.
Image stage_sample(const ConvPoolPlan& plan, const float* x, std::int64_t n, float* scratch);

/// Hands out pieces of one scratch tensor, each aligned to 64 bytes.
class Scratch {
 public:
  /// `floats`: all pieces together, each rounded up with padded().
  explicit Scratch(std::int64_t floats)
      : memory_(Tensor::empty({floats})), next_(static_cast<float*>(memory_.data())) {}
  float* take(std::int64_t floats) {
    float* piece = next_;
    next_ += padded(floats);
    return piece;
  }
  [[nodiscard]] static std::int64_t padded(std::int64_t floats) { return (floats + 15) / 16 * 16; }

 private:
  Tensor memory_;
  float* next_;
};

/// Throws ShapeError unless the operands fit together and the layer is supported.
void check_conv_pool(const Conv2dMaxPool2dInputs& inputs);

/// Throws ShapeError unless `t` is a host tensor of this shape and dtype.
void check_operand(const char* what, const Tensor& t, const Shape& shape, DType dtype);

}  // namespace lockstep::detail
