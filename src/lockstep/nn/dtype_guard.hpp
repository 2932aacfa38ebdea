#pragma once
#include <lockstep/tensor/dtype.hpp>

namespace lockstep::nn {

/// While alive, modules made on this thread hold their floating parameters and buffers in `dtype`
/// (the same numbers, converted), where they would hold f32: what torch.set_default_dtype is for.
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

/// What f32 parameters become on this thread.
[[nodiscard]] DType default_dtype() noexcept;

}  // namespace lockstep::nn
