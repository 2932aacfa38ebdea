#pragma once
#include <memory>

#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::math {

/// By a graph of cuDNN 9; null for one that cuDNN does not support, and for all in a build without
/// the headers of cuDNN's frontend. Only in builds with CUDA.
[[nodiscard]] std::unique_ptr<FusedAttentionPlan> cudnn_plan(const char* name,
                                                             const Attention& attention,
                                                             Device device);

}  // namespace lockstep::math
