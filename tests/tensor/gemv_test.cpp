#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <lockstep/tensor/math/gemm.hpp>

namespace lockstep::math {
namespace {

// Small whole numbers: every sum is exact in any order.
TEST(Gemm, OfOneRowByATransposedMatrixIsExactForEveryLength) {
  for (const std::int64_t k : {0, 1, 3, 15, 16, 17, 63, 64, 65, 130, 200}) {
    for (const std::int64_t n : {1, 3, 8}) {
      const std::int64_t stride = k + 5;  // what stands between the rows must not be read
      std::vector<float> a, b(static_cast<std::size_t>(n * stride), std::nanf("")), expected;
      for (std::int64_t i = 0; i < k; ++i) a.push_back(static_cast<float>(i * 7 % 11 - 5));
      for (std::int64_t r = 0; r < n; ++r) {
        float sum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const auto value = static_cast<float>((r * 5 + i * 3) % 13 - 6);
          b[static_cast<std::size_t>(r * stride + i)] = value;
          sum += value * a[static_cast<std::size_t>(i)];
        }
        expected.push_back(sum);
      }
      for (const float beta : {0.0F, 1.0F, 0.5F}) {
        std::vector<float> c(static_cast<std::size_t>(n),
                             beta == 0 ? std::numeric_limits<float>::quiet_NaN() : 2.0F);
        gemm(1, n, k, {a.data(), std::max<std::int64_t>(k, 1)}, {b.data(), stride, true}, beta,
             c.data(), n);
        for (std::size_t r = 0; r < c.size(); ++r)
          EXPECT_EQ(c[r], expected[r] + (beta == 0 ? 0 : 2 * beta)) << k << " " << n << " " << beta;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::math
