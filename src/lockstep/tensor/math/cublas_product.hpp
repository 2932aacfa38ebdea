#pragma once
#include <memory>

#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::math {

/// By cuBLASLt; null for a product that it has only without its epilogue. In builds with CUDA.
[[nodiscard]] std::unique_ptr<ProductPlan> cublas_plan(const char* name,
                                                       const ColumnMajorProduct& product,
                                                       Device device);

}  // namespace lockstep::math
