#pragma once
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::test {

/// While it lives, simulated devices compute as a GPU does: products and convolutions by what a
/// vendor's library is told, here in plain loops, late; all else by kernels; and what has none is
/// refused.
class GpuStandIn {
 public:
  GpuStandIn();

  [[nodiscard]] static int plans();  ///< that were made so far
  [[nodiscard]] static int runs();   ///< of them

 private:
  math::MathStandIn serves_;
};

}  // namespace lockstep::test
