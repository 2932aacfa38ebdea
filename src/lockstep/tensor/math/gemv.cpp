#include <lockstep/tensor/math/gemv.hpp>

#include <lockstep/tensor/kernels/simd.hpp>

namespace lockstep::math {
namespace {

/// Several sums side by side hide the latency of the additions.
float dot(std::int64_t k, const float* a, const float* b) {
  constexpr int sums = 4;
  simd::Floats part[sums] = {};
  std::int64_t i = 0;
  for (; i + sums * simd::width <= k; i += sums * simd::width) {
#pragma GCC unroll 4
    for (int s = 0; s < sums; ++s) {
      const std::int64_t at = i + s * simd::width;
      part[s] += simd::load(a + at) * simd::load(b + at);
    }
  }
  float total = simd::sum((part[0] + part[1]) + (part[2] + part[3]));
  for (; i < k; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace

void gemv(std::int64_t n, std::int64_t k, const float* b, std::int64_t b_stride, const float* x,
          float beta, float* c) {
  for (std::int64_t r = 0; r < n; ++r) {
    const float product = dot(k, b + r * b_stride, x);
    c[r] = beta == 0 ? product : beta * c[r] + product;
  }
}

}  // namespace lockstep::math
