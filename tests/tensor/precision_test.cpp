// Products of f32 matrices with operands rounded to 16 bits.
#include <gtest/gtest.h>

#include <cmath>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/precision.hpp>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

struct Problem {
  std::int64_t m, n, k;
  bool a_transposed = false, b_transposed = false;
  float beta = 0;
  std::int64_t further = 0;  ///< columns of each matrix that are not its own
};

/// Numbers in -8 to 8 in steps of 1/4, that both 16-bit types hold, as the products' sums f32 does.
float whole(std::int64_t i) { return static_cast<float>(i * 37 % 65 - 32) / 4; }

struct Operands {
  explicit Operands(const Problem& p)
      : a_stride((p.a_transposed ? p.m : p.k) + p.further),
        b_stride((p.b_transposed ? p.k : p.n) + p.further),
        c_stride(p.n + p.further),
        a(static_cast<std::size_t>((p.a_transposed ? p.k : p.m) * a_stride)),
        b(static_cast<std::size_t>((p.b_transposed ? p.n : p.k) * b_stride)),
        c(static_cast<std::size_t>(p.m * c_stride)) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = whole(static_cast<std::int64_t>(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = whole(static_cast<std::int64_t>(i) + 11);
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = whole(static_cast<std::int64_t>(i) + 5);
  }
  std::int64_t a_stride, b_stride, c_stride;
  std::vector<float> a, b, c;
};

std::vector<float> product(const Problem& p, Precision precision) {
  Operands o(p);
  const PrecisionGuard guard(precision);
  math::gemm(p.m, p.n, p.k, {o.a.data(), o.a_stride, p.a_transposed},
             {o.b.data(), o.b_stride, p.b_transposed}, p.beta, o.c.data(), o.c_stride);
  return o.c;
}

/// The same by its definition.
std::vector<float> by_hand(const Problem& p) {
  Operands o(p);
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        const float x = o.a[at(p.a_transposed ? l * o.a_stride + i : i * o.a_stride + l)];
        const float y = o.b[at(p.b_transposed ? j * o.b_stride + l : l * o.b_stride + j)];
        sum += static_cast<double>(x) * y;
      }
      float& c = o.c[at(i * o.c_stride + j)];
      c = static_cast<float>(sum + static_cast<double>(p.beta) * c);
    }
  }
  return o.c;
}

TEST(ProductPrecision, NumbersOf16BitsGiveTheExactProductInEveryShape) {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                  {1, 7, 5},
                                  {9, 1, 33},
                                  {17, 31, 64},
                                  {64, 48, 300},
                                  {3, 130, 256},
                                  {0, 4, 4},
                                  {4, 4, 0}}) {
      for (const bool a : {false, true}) {
        for (const bool b : {false, true}) {
          for (const float beta : {0.0F, 1.0F, 0.5F}) {
            for (const std::int64_t further : {0, 3}) {
              const Problem p{m, n, k, a, b, beta, further};
              EXPECT_EQ(product(p, precision), by_hand(p))
                  << m << " x " << k << " x " << n << " transposed " << a << b << " beta " << beta
                  << " further " << further << " precision " << static_cast<int>(precision);
            }
          }
        }
      }
    }
  }
}

TEST(ProductPrecision, OperandsAreRoundedToNearestEvenAndSumsAreNot) {
  const float up = 1.0F + 0x1.8p-8F, down = 1.0F + 0x1p-9F, fine = 0x1p-20F;
  const std::vector<float> a{up, 0, down, 0, 1, 1}, b{1, fine};
  std::vector<float> c(3);
  const PrecisionGuard guard(Precision::bf16);
  math::gemm(3, 1, 2, {a.data(), 2}, {b.data(), 1}, 0.0F, c.data(), 1);
  EXPECT_EQ(c, (std::vector<float>{1.0F + 0x1p-7F, 1.0F, 1.0F + fine}));
}

TEST(ProductPrecision, BelongsToTheThreadAndEndsWithItsGuard) {
  EXPECT_EQ(product_precision(), Precision::f32);
  {
    const PrecisionGuard outer(Precision::bf16);
    {
      const PrecisionGuard inner(Precision::fp16);
      EXPECT_EQ(product_precision(), Precision::fp16);
    }
    EXPECT_EQ(product_precision(), Precision::bf16);
    std::thread([] { EXPECT_EQ(product_precision(), Precision::f32); }).join();
  }
  EXPECT_EQ(product_precision(), Precision::f32);
}

TEST(ProductPrecision, DoublesAreNotTouched) {
  const std::vector<double> a{1.0 + 0x1p-40}, b{3};
  double c = 0;
  const PrecisionGuard guard(Precision::bf16);
  math::gemm(1, 1, 1, {a.data(), 1}, {b.data(), 1}, 0.0, &c, 1);
  EXPECT_EQ(c, 3 + 3 * 0x1p-40);
}

}  // namespace
}  // namespace lockstep
