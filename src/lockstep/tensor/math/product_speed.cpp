#include <lockstep/tensor/math/product_speed.hpp>

#include <algorithm>

#include <lockstep/base/clock.hpp>
#include <lockstep/tensor/math/gemm.hpp>

namespace lockstep {
namespace {

double measure(Precision precision) {
  const PrecisionGuard guard(precision);
  MeasuredProduct product;
  double best = 0;
  for (int round = 0; round < 5; ++round) {  // the first one initialises the library
    const auto start = Clock::now();
    product.run();
    best = std::max(best, MeasuredProduct::flops / seconds_since(start));
  }
  return best;
}

template <Precision precision>
double measured() {
  static const double speed = measure(precision);
  return speed;
}

}  // namespace

void MeasuredProduct::run() {
  math::gemm(n, n, n, {a_.data(), n}, {b_.data(), n, true}, 0.0F, c_.data(), n);
}

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
