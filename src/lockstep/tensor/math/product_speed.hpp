#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// The product by which the speed of a core is measured: of two 512 x 512 matrices of f32.
class MeasuredProduct {
 public:
  static constexpr std::int64_t n = 512;
  static constexpr double flops = 2.0 * n * n * n;

  /// Computes it once, on this thread, in the thread's precision.
  void run();

 private:
  std::vector<float> a_ = std::vector<float>(n * n, 0.5F), b_ = std::vector<float>(n * n, 2.0F);
  std::vector<float> c_ = std::vector<float>(n * n);
};

/// FLOP/s of one core in a MeasuredProduct whose operands are rounded to `precision`: an upper
/// bound for a training step. The best of five, measured at the process' first call, in about 10
/// ms.
[[nodiscard]] double product_speed(Precision precision);

}  // namespace lockstep
