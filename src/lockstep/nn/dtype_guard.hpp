#pragma once
#include <lockstep/tensor/dtype.hpp>

namespace lockstep::nn {

/// While it lives, modules made on this thread hold their floating parameters and buffers in
/// `dtype` (converted from f32) instead of f32: PyTorch's torch.set_default_dtype.
///   const nn::DTypeGuard double_precision(DType::f64);
///   const auto model = nn::convnet({1, 28, 28}, 10);  // every parameter is f64
class DTypeGuard {
 public:
  /// f32 or f64; throws ShapeError for another.
  explicit DTypeGuard(DType dtype);
  ~DTypeGuard();
  DTypeGuard(const DTypeGuard&) = delete;
  DTypeGuard& operator=(const DTypeGuard&) = delete;

 private:
  DType before_;
};

/// The dtype that replaces f32 for parameters on this thread.
[[nodiscard]] DType default_dtype() noexcept;

}  // namespace lockstep::nn
