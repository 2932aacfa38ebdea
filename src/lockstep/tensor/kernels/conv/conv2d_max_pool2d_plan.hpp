#pragma once
// Shared by forward and backward of conv2d_max_pool2d: sizes, scratch memory, staging of a sample.
// Private to the two .cpp files.

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d.hpp>
#include <lockstep/tensor/kernels/simd.hpp>

namespace lockstep::detail {

struct ConvPoolPlan {
  ConvPoolPlan(const Shape& x, const Shape& weight, const Conv2dOptions& conv,
               const SquareWindow& pool);

  std::int64_t samples, channels, height, width;
  std::int64_t outputs, kernel_h, kernel_w, taps;  ///< taps = channels * kernel_h * kernel_w
  std::int64_t pad_h, pad_w;
  std::int64_t pool;  ///< edge and stride of the pooling window
  std::int32_t
      pool_reciprocal;  ///< code * pool_reciprocal >> 16 is code / pool, exactly, up to 254
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
  /// One vector after each shift takes the overrun of block copies.
  [[nodiscard]] std::int64_t shift_stride() const { return channels * plane_stride() + 16; }

  // Backward's arrangement: patch[s][row][c][j] = image[c][row][s * step() + j], j < run(): strips
  // of columns, each as wide as the convolution needs for a whole pooling window (span() = pool),
  // or for one of its columns where that would be mostly waste. The convolution's window of output
  // (oh, ow) is then a run of window_numel floats, its taps at window_offset(c, i, j).
  [[nodiscard]] std::int64_t span() const { return pool <= kernel_w ? pool : 1; }
  [[nodiscard]] std::int64_t run() const { return kernel_w + span() - 1; }
  [[nodiscard]] std::int64_t pitch() const { return channels * run(); }
  [[nodiscard]] std::int64_t strip() const { return rows * pitch(); }
  [[nodiscard]] std::int64_t strips() const { return pool * pooled_w / span(); }
  [[nodiscard]] std::int64_t window_offset(std::int64_t c, std::int64_t i, std::int64_t j) const {
    return i * pitch() + c * run() + j;
  }
  [[nodiscard]] std::int64_t window_numel() const {
    return window_offset(channels - 1, kernel_h - 1, kernel_w);
  }
};

/// One sample's image with its padding, or a view of the tensor itself without padding.
struct Image {
  const float* data;
  std::int64_t row_stride, channel_stride;
};

/// How many floats behind a staged sample may be read: block copies take more than they need.
inline constexpr std::int64_t overread = 64;

/// Sample n. With padding, or if reading past the sample's end is not allowed in the tensor,
/// `scratch` (staged_numel() + overread floats) holds a copy.
Image stage_sample(const ConvPoolPlan& plan, const float* x, std::int64_t n, float* scratch);

/// Pieces of one scratch tensor, each aligned to 64 bytes; contents unspecified.
template <std::size_t Pieces>
class Scratch {
 public:
  explicit Scratch(const std::array<std::int64_t, Pieces>& floats) {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < Pieces; ++i) {
      offsets_[i] = total;
      total += (floats[i] + 15) / 16 * 16;
    }
    memory_ = Tensor::empty({total});
  }
  [[nodiscard]] float* operator[](std::size_t piece) const {
    return static_cast<float*>(memory_.data()) + offsets_[piece];
  }

 private:
  Tensor memory_;
  std::array<std::int64_t, Pieces> offsets_;
};

/// Throws ShapeError unless the operands fit together and the layer is supported.
void check_conv_pool(const Conv2dMaxPool2dInputs& inputs);

/// Throws ShapeError unless `t` is a host tensor of this shape and dtype.
void check_operand(const char* what, const Tensor& t, const Shape& shape, DType dtype);

}  // namespace lockstep::detail
