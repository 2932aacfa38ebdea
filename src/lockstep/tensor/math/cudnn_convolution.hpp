#pragma once
#include <memory>

#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::math {

/// By cuDNN 9. Only in builds with CUDA.
[[nodiscard]] std::unique_ptr<ConvolutionPlan> cudnn_plan(const char* name,
                                                          const Convolution& convolution,
                                                          Device device);

}  // namespace lockstep::math
