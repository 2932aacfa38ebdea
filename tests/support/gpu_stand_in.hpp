#pragma once
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::test {

/// While it lives, simulated devices compute like a GPU: products and convolutions by calls to a
/// vendor's library, here plain loops run asynchronously; everything else by kernels; operations
/// without a kernel are refused.
class GpuStandIn {
 public:
  GpuStandIn();

  [[nodiscard]] static int plans();  ///< number of products so far
  [[nodiscard]] static int runs();   ///< number of convolutions among them

 private:
  math::MathStandIn serves_;
};

}  // namespace lockstep::test
