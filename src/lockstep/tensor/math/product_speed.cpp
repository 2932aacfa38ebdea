#include <lockstep/tensor/math/product_speed.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/tensor/math/gemm.hpp>

namespace lockstep {
namespace {

double measure(Precision precision) {
  constexpr std::int64_t n = 512;
  const PrecisionGuard guard(precision);
  const std::vector<float> a(n * n, 0.5F), b(n * n, 2.0F);
  std::vector<float> c(n * n);
  double best = 0;
  for (int round = 0; round < 5; ++round) {  // the first one sets the library up
    const auto start = Clock::now();
    math::gemm(n, n, n, {a.data(), n}, {b.data(), n, true}, 0.0F, c.data(), n);
    best = std::max(best, 2.0 * n * n * n / seconds_since(start));
  }
  return best;
}

template <Precision precision>
double measured() {
  static const double speed = measure(precision);
  return speed;
}

}  // namespace

double product_speed(Precision precision) {
  switch (precision) {
    case Precision::f32:
      break;
    case Precision::bf16:
      return measured<Precision::bf16>();
    case Precision::fp16:
      return measured<Precision::fp16>();
  }
  return measured<Precision::f32>();
}

}  // namespace lockstep
