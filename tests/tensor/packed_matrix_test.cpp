// Products with a matrix that was arranged before, against sums of whole numbers, which are exact.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <lockstep/tensor/math/packed_matrix.hpp>

namespace lockstep {
namespace {

template <class T>
class PackedMatrices : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(PackedMatrices, Types);

/// Whole numbers from -4 to 4.
template <class T>
std::vector<T> whole_numbers(std::int64_t count, std::int64_t seed) {
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (auto& x : numbers) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    x = static_cast<T>(seed / 65536 % 9 - 4);
  }
  return numbers;
}

template <class T>
void expect_product(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed,
                    std::int64_t gap, bool accumulates) {
  SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n << ", transposed " << transposed
                                  << ", gap " << gap << ", accumulates " << accumulates);
  const std::int64_t stride = (transposed ? k : n) + gap;
  const auto a = whole_numbers<T>(m * k, 1), b = whole_numbers<T>(stride * (transposed ? n : k), 2);
  auto c = whole_numbers<T>(m * n, 3), expected = c;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T& sum = expected[at(i * n + j)];
      if (!accumulates) sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[at(i * k + l)] * b[at(transposed ? j * stride + l : l * stride + j)];
    }
  }
  const math::PackedMatrix<T> packed(m, n, k, {b.data(), stride, transposed},
                                     accumulates ? T{1} : T{0});
  packed.multiply(a.data(), c.data());
  EXPECT_EQ(c, expected);
}

TYPED_TEST(PackedMatrices, MultiplyPlainTransposedAndWithGaps) {
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {20, 80, 20}, {7, 33, 19}, {1, 200, 5}, {64, 5, 100}}) {
    for (const bool transposed : {false, true}) {
      for (const std::int64_t gap : {0, 3}) {
        for (const bool accumulates : {false, true})
          expect_product<TypeParam>(m, n, k, transposed, gap, accumulates);
      }
    }
  }
}

TYPED_TEST(PackedMatrices, MayBeEmpty) {
  for (const bool accumulates : {false, true}) {
    expect_product<TypeParam>(0, 3, 4, true, 0, accumulates);
    expect_product<TypeParam>(3, 0, 4, false, 0, accumulates);
    expect_product<TypeParam>(3, 4, 0, true, 0, accumulates);
  }
}

// Two of the same shape share oneDNN's primitives, not the matrix.
TYPED_TEST(PackedMatrices, OfTheSameShapeAreSeparate) {
  const std::vector<TypeParam> a{1, 2}, b{3, 4}, d{5, 6};
  const math::PackedMatrix<TypeParam> first(1, 1, 2, {b.data(), 1}, 0),
      second(1, 1, 2, {d.data(), 1}, 0);
  TypeParam of_first = 0, of_second = 0;
  first.multiply(a.data(), &of_first);
  second.multiply(a.data(), &of_second);
  EXPECT_EQ(of_first, 11);
  EXPECT_EQ(of_second, 17);
}

}  // namespace
}  // namespace lockstep
