#pragma once
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::test {

/// While it lives, simulated devices compute like a GPU: products, convolutions and attention by
/// calls to a vendor's library, here plain loops run asynchronously; everything else by kernels;
/// operations without a kernel are refused.
class GpuStandIn {
 public:
  GpuStandIn();

  [[nodiscard]] static int plans();  ///< made so far
  [[nodiscard]] static int runs();   ///< calls of them so far
  /// Products with gelu or its slope among these calls. It lacks those of an odd number of terms.
  [[nodiscard]] static int products_with_gelu();
  /// Products in 16 bits among them of a matrix whose rows do not begin at multiples of 16 bytes.
  [[nodiscard]] static int products_with_ragged_rows();
  [[nodiscard]] static int attentions();  ///< passes of attention among these calls
  /// Passes of convolutions in 16 bits among them. Those with a dilation along the first spatial
  /// dimension it lacks.
  [[nodiscard]] static int narrow_convolutions();
  /// Passes of convolutions with channels last among them.
  [[nodiscard]] static int channels_last();

 private:
  math::MathStandIn serves_;
};

}  // namespace lockstep::test
