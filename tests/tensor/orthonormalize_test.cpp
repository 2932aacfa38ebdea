#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/linalg/matmul.hpp>
#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>

namespace lockstep {
namespace {

Tensor rows_of(std::int64_t rows, std::int64_t columns, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    values.push_back(
        std::sin(0.3 + 1.7 * static_cast<double>(i) + 0.9 * static_cast<double>(i * i)));
  }
  return Tensor::from(values, {rows, columns}).to(dtype);
}

/// a a^T.
std::vector<double> products(const Tensor& a) {
  const Tensor all = Tensor::empty({a.size(0), a.size(0)}, DType::f64);
  matmul_backward_a(a.to(DType::f64), a.to(DType::f64), false, all);
  return all.to_vector<double>();
}

/// Rows are perpendicular; those in `lengths` that are 0 are zero, the others of length 1.
void expect_orthonormal(const Tensor& a, const std::vector<double>& lengths, double rounding) {
  const auto all = products(a);
  const std::size_t n = lengths.size();
  ASSERT_EQ(all.size(), n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      EXPECT_NEAR(all[i * n + j], i == j ? lengths[i] : 0.0, rounding) << i << ", " << j;
    }
  }
}

TEST(OrthonormalizeRows, GivesABasisOfTheSameSpan) {
  for (const auto& [dtype, rounding] :
       {std::pair{DType::f32, 4e-7}, std::pair{DType::f64, 1e-15}}) {
    const Tensor before = rows_of(4, 300, dtype), a = before.clone();
    orthonormalize_rows(a);
    expect_orthonormal(a, {1, 1, 1, 1}, rounding);
    // before = (before a^T) a
    const Tensor parts = Tensor::empty({4, 4}, DType::f64),
                 back = Tensor::empty({4, 300}, DType::f64);
    matmul_backward_a(before.to(DType::f64), a.to(DType::f64), false, parts);
    matmul_forward(parts, a.to(DType::f64), back);
    const auto expected = before.to(DType::f64).to_vector<double>(), got = back.to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 10 * rounding);
    // Row by row: the first only gets its length.
    EXPECT_NEAR(got[5] / got[0],
                a.to(DType::f64).to_vector<double>()[5] / a.to(DType::f64).to_vector<double>()[0],
                100 * rounding);
  }
}

TEST(OrthonormalizeRows, NearlyParallelRowsEndPerpendicular) {
  for (const auto& [dtype, angle, rounding] :
       {std::tuple{DType::f32, 1e-4, 4e-7}, std::tuple{DType::f64, 1e-12, 1e-15}}) {
    auto values = rows_of(1, 100, DType::f64).to_vector<double>();
    for (std::size_t c = 0; c < 100; ++c) {
      values.push_back(values[c] + angle * std::cos(static_cast<double>(c)));
    }
    const Tensor a = Tensor::from(values, {2, 100}).to(dtype);
    orthonormalize_rows(a);
    expect_orthonormal(a, {1, 1}, rounding);
  }
}

TEST(OrthonormalizeRows, RowsInTheSpanOfEarlierRowsBecomeZeroOrRandom) {
  for (const auto& [dtype, rounding] :
       {std::pair{DType::f32, 4e-7}, std::pair{DType::f64, 1e-15}}) {
    const auto dependent = [dtype = dtype] {
      const Tensor a = rows_of(4, 50, dtype);
      a.slice(0, 1).zero();
      auto sum = a.slice(1, 2).to(DType::f64).to_vector<double>();
      const auto other = a.slice(2, 3).to(DType::f64).to_vector<double>();
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = 3 * sum[c] - 0.7 * other[c];
      a.slice(3, 4).copy_from(Tensor::from(sum, {1, 50}).to(dtype));
      return a;
    };
    const Tensor a = dependent();
    orthonormalize_rows(a);
    expect_orthonormal(a, {0, 1, 1, 0}, rounding);
    EXPECT_EQ(a.slice(3, 4).to(DType::f64).to_vector<double>(), std::vector<double>(50, 0.0));

    const Tensor b = dependent(), c = dependent(), d = dependent();
    orthonormalize_rows(b, {.seed = 1, .stream = 2, .step = 3});
    expect_orthonormal(b, {1, 1, 1, 1}, rounding);
    orthonormalize_rows(c, {.seed = 1, .stream = 2, .step = 3});
    orthonormalize_rows(d, {.seed = 1, .stream = 2, .step = 4});
    const auto bits = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
    EXPECT_EQ(bits(b), bits(c));
    EXPECT_NE(bits(b), bits(d));
  }
}

TEST(OrthonormalizeRows, SquareOfZerosBecomesARandomBasis) {
  const Tensor a = Tensor::zeros({5, 5}, DType::f64);
  orthonormalize_rows(a, {.seed = 7});
  expect_orthonormal(a, {1, 1, 1, 1, 1}, 1e-14);
}

TEST(OrthonormalizeRows, NanSpreads) {
  const Tensor a = rows_of(2, 9, DType::f32);
  a.slice(0, 1).fill(std::numeric_limits<double>::quiet_NaN());
  orthonormalize_rows(a, {});
  for (const float value : a.to_vector<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST(OrthonormalizeRows, RefusesOtherShapesAndTypes) {
  EXPECT_THROW(orthonormalize_rows(Tensor::zeros({3})), ShapeError);
  EXPECT_THROW(orthonormalize_rows(Tensor()), ShapeError);
  EXPECT_THROW(orthonormalize_rows(Tensor::zeros({2, 3}, DType::i64)), ShapeError);
  EXPECT_THROW(orthonormalize_rows(Tensor::zeros({3, 2}), {}), ShapeError);
}

}  // namespace
}  // namespace lockstep
