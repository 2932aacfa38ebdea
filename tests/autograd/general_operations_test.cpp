// What the general tensor operations promise beyond their formulas: edges, NaN, messages, accuracy.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Variable input(const Shape& shape) { return Variable(random_tensor(shape, 31), true); }
Variable numbers(const std::vector<double>& values, const Shape& shape) {
  return Variable(Tensor::from(values, shape), true);
}
std::vector<double> values(const Variable& x) { return x.data().to_vector<double>(); }
std::vector<double> gradient(const Variable& x) { return x.grad().to_vector<double>(); }
void backward_of_ones(const Variable& y) {
  weighted_sum(y, Tensor::full(y.shape(), 1, DType::f64)).backward();
}

/// Expects an E whose message holds every one of `parts`.
template <class E = ShapeError, class F>
void expect_refusal(const F& f, const std::vector<std::string>& parts) {
  try {
    static_cast<void>(f());
    FAIL() << "not refused";
  } catch (const E& error) {
    for (const auto& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

TEST(GeneralShapeErrors, PrintBothShapes) {
  const Variable x = input({2, 3}), other = input({4, 5});
  const auto both = [](const char* name) {
    return std::vector<std::string>{name, "f64[2, 3]", "f64[4, 5]"};
  };
  expect_refusal([&] { return x + other; }, both("add"));
  expect_refusal([&] { return x - other; }, both("sub"));
  expect_refusal([&] { return x * other; }, both("mul"));
  expect_refusal([&] { return x / other; }, both("div"));
  expect_refusal([&] { return matmul(x, other); }, both("matmul"));
  expect_refusal([&] { return bmm(x, other); }, both("bmm"));
  expect_refusal([&] { return mse_loss(x, other.data()); }, both("mse_loss"));
  expect_refusal([&] { return binary_cross_entropy_with_logits(x, other.data()); },
                 both("binary_cross_entropy_with_logits"));
  expect_refusal([&] { return concat(std::vector<Variable>{x, other}); }, both("concat"));
  expect_refusal([&] { return x + to(x, DType::f32); }, {"f64[2, 3]", "f32[2, 3]"});
  expect_refusal(
      [&] {
        return matmul(input({2, 3, 4}), input({3, 4, 5}));
      },
      {"[2, 3, 4]", "[3, 4, 5]"});
  expect_refusal([&] { return matmul(x, input({})); }, {"[2, 3]", "[]"});
  expect_refusal([&] { return masked_fill(x, Tensor::zeros({2}, DType::boolean), 0); },
                 {"[2, 3]", "bool[2]"});
  expect_refusal([&] { return masked_fill(x, Tensor::zeros({2, 3}), 0); }, {"f32[2, 3]", "bool"});
  expect_refusal([&] { return to(x, DType::i64); }, {"i64"});
  expect_refusal(
      [&] {
        return gather(x, 0, Tensor::zeros({2, 4}, DType::i64));
      },
      {"f64[2, 3]", "i64[2, 4]"});
  expect_refusal([&] { return gather(x, 0, Tensor::zeros({2, 3})); }, {"f32[2, 3]"});
}

TEST(GeneralShapeErrors, NameTheDimension) {
  const Variable x = input({2, 3});
  expect_refusal([&] { return sum(x, {2}); }, {"[2, 3]", "2"});
  expect_refusal([&] { return mean(x, {0, -2}); }, {"[2, 3]", "named twice"});
  expect_refusal([&] { return permute(x, {0}); }, {"[2, 3]", "1 dimensions"});
  expect_refusal([&] { return permute(x, {0, 0}); }, {"[2, 3]", "named twice"});
  expect_refusal([&] { return transpose(x, 0, 5); }, {"[2, 3]", "5"});
  expect_refusal([&] { return narrow(x, 1, 2, 2); }, {"[2, 4)", "[2, 3]"});
  expect_refusal([&] { return narrow(x, 1, -1, 2); }, {"[-1, 1)", "[2, 3]"});
  const std::vector<std::int64_t> sizes{1, 1};
  expect_refusal([&] { return split(x, sizes, 1); }, {"[2, 3]", "2 parts of 2"});
  const std::vector<std::int64_t> more{5, -2};  // which add up
  expect_refusal([&] { return split(x, more, 1); }, {"[2, 3]", "a part of 5"});
  expect_refusal([&] { return concat({}); }, {"one part"});
  expect_refusal([&] { return amax(input({2, 0}), {1}); }, {"[2, 0]", "no largest"});
  expect_refusal([&] { return max(input({0, 2}), 0).values; }, {"[0, 2]", "no largest"});
}

TEST(GeneralShapeErrors, AnEmptyPlaneIsRefused) {
  const Variable image = input({2, 3, 0, 4}), line = input({2, 3, 0});
  const PoolOptions<1> window{.kernel = {2}, .padding = {1}};
  expect_refusal([&] { return max_pool2d(image, {.kernel = 2, .padding = 1}); },
                 {"[2, 3, 0, 4]", "empty"});
  expect_refusal([&] { return avg_pool2d(image, {.kernel = 2, .padding = 1}); },
                 {"[2, 3, 0, 4]", "empty"});
  expect_refusal([&] { return max_pool(line, window); }, {"[2, 3, 0]", "empty"});
  expect_refusal([&] { return avg_pool(line, window); }, {"[2, 3, 0]", "empty"});
  expect_refusal([&] { return interpolate(line, {4}); }, {"[2, 3, 0]", "dimension 2 is empty"});
  expect_refusal(
      [&] {
        return interpolate(image, {4, 4}, Interpolation::bilinear);
      },
      {"[2, 3, 0, 4]", "dimension 2 is empty"});
  const Variable no_samples = input({0, 3, 4});
  EXPECT_EQ(max_pool(no_samples, window).shape(), (Shape{0, 3, 3}));
  EXPECT_EQ(interpolate(no_samples, {8}).shape(), (Shape{0, 3, 8}));
}

TEST(GeneralShapeErrors, AMaxPoolOfAPlaneBeyond32BitIndicesIsRefused) {
  const Variable line(Tensor::empty({0, 1, std::int64_t{1} << 31U}));  // no sample, no memory
  const PoolOptions<1> window{.kernel = {std::int64_t{1} << 30U}};
  expect_refusal([&] { return max_pool(line, window); }, {"max_pool1d", "32-bit"});
  expect_refusal([&] { return adaptive_max_pool<1>(line, {2}); },
                 {"adaptive_max_pool1d", "32-bit"});
  EXPECT_EQ(avg_pool(line, window).shape(), (Shape{0, 1, 2}));
}

TEST(Gather, NamesTheIndexThatIsOutside) {
  const Tensor index = Tensor::from(std::vector<std::int64_t>{0, 1, 3, 0}, {2, 2});
  expect_refusal<InputError>(
      [&] {
        return gather(input({2, 3}), 1, index);
      },
      {"index 3, number 2", "[2, 3]"});
  expect_refusal<InputError>(
      [&] {
        return gather(input({2, 3}), 1, Tensor::full({1, 1}, -1, DType::i64));
      },
      {"index -1"});
}

TEST(ZeroSize, ArithmeticAndShapesOfNothing) {
  const Variable x = input({0, 3}), row = input({3});
  const Variable y = (x + row) * (x - row) / row;
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
  backward_of_ones(exp(masked_fill(y, Tensor::zeros({3}, DType::boolean), 1) * 2.0));
  EXPECT_EQ(gradient(row), std::vector<double>(3, 0.0));
  EXPECT_EQ(x.grad().shape(), (Shape{0, 3}));
  EXPECT_EQ(add(input({1, 3}), input({0, 1})).shape(), (Shape{0, 3}));
  EXPECT_EQ(permute(input({2, 0, 3}), {2, 0, 1}).shape(), (Shape{3, 2, 0}));
  EXPECT_EQ(transpose(x, 0, 1).shape(), (Shape{3, 0}));
  EXPECT_EQ(narrow(row, 0, 3, 0).shape(), (Shape{0}));
  EXPECT_EQ(concat(std::vector<Variable>{x, x}).shape(), (Shape{0, 3}));
  EXPECT_EQ(gather(row, 0, Tensor::empty({0}, DType::i64)).shape(), (Shape{0}));
  const Variable part = narrow(row, 0, 1, 0);
  row.zero_grad();
  backward_of_ones(part);
  EXPECT_EQ(gradient(row), std::vector<double>(3, 0.0));
}

TEST(ZeroSize, ReductionsAsInPyTorch) {
  const Variable x = input({0, 3});
  EXPECT_EQ(values(sum(x)), std::vector<double>{0});
  EXPECT_EQ(values(sum(x, {0})), std::vector<double>(3, 0.0));
  EXPECT_EQ(sum(x, {1}).shape(), (Shape{0}));
  EXPECT_TRUE(std::isnan(mean(x).data().item()));
  EXPECT_EQ(amax(x, {1}).shape(), (Shape{0}));
  EXPECT_EQ(max(x, 1).indices.shape(), (Shape{0}));
  EXPECT_EQ(values(logsumexp(x, 0)), std::vector<double>(3, -infinity));
  EXPECT_TRUE(std::isnan(mse_loss(x, x.data()).data().item()));
  EXPECT_EQ(mse_loss(x, x.data(), Reduction::sum).data().item(), 0.0);
  backward_of_ones(sum(x, {0}));
  EXPECT_EQ(x.grad().shape(), (Shape{0, 3}));
}

TEST(ZeroSize, MatmulWithoutTermsIsZeroAndGradientsAreToo) {
  for (const auto& [first, second] : std::vector<std::pair<Shape, Shape>>{{{2, 0}, {0, 3}},
                                                                          {{0, 2}, {2, 3}},
                                                                          {{0, 2, 3}, {3, 4}},
                                                                          {{1, 2, 3}, {0, 3, 4}},
                                                                          {{0}, {0}}}) {
    SCOPED_TRACE(to_string(first) + " by " + to_string(second));
    const Variable a = input(first), b = input(second);
    const Variable y = matmul(a, b);
    EXPECT_EQ(values(y), std::vector<double>(static_cast<std::size_t>(y.shape().numel()), 0.0));
    backward_of_ones(y);
    for (const Variable& v : {a, b}) {
      EXPECT_EQ(gradient(v), std::vector<double>(static_cast<std::size_t>(v.shape().numel()), 0.0));
    }
  }
}

TEST(NotANumber, CountsAsTheLargest) {
  // Both paths: along memory and across it, at widths beyond one vector.
  for (const std::int64_t width : {3, 20, 5000}) {
    auto row = random_tensor({2, width}, 3).to_vector<double>();
    row[1] = row[2] = nan;
    const Variable x = numbers(row, {2, width});
    for (const bool across : {false, true}) {
      const auto result = across ? max(transpose(x, 0, 1), 0) : max(x, 1);
      EXPECT_TRUE(std::isnan(values(result.values)[0]));
      EXPECT_FALSE(std::isnan(values(result.values)[1]));
      EXPECT_EQ(result.indices.to_vector<std::int64_t>()[0], 1);
    }
    EXPECT_TRUE(std::isnan(amax(x).data().item()));
    EXPECT_TRUE(std::isnan(sum(x).data().item()));
    EXPECT_TRUE(std::isnan(values(logsumexp(x, 1))[0]));
  }
}

TEST(Infinity, PassesThroughLogsumexp) {
  const Variable x = numbers({-infinity, -infinity, infinity, 1, 0, -infinity}, {3, 2});
  EXPECT_EQ(values(logsumexp(x, 1)), (std::vector<double>{-infinity, infinity, 0}));
  const Variable large = numbers({1000, 1000}, {2});
  EXPECT_DOUBLE_EQ(logsumexp(large, 0).data().item(), 1000 + std::log(2.0));
}

TEST(Infinity, GivesNoNaNInLossesWithLogits) {
  const Variable x = numbers({1000, -1000}, {2});
  const Tensor target = Tensor::from(std::vector<double>{0, 0}, {2});
  const Variable loss = binary_cross_entropy_with_logits(x, target, Reduction::sum);
  EXPECT_EQ(loss.data().item(), 1000.0);
  loss.backward();
  EXPECT_EQ(gradient(x), (std::vector<double>{1, 0}));
}

TEST(Amax, SharesTheGradientAmongEqualsAndMaxGivesItToTheFirst) {
  const Variable x = numbers({2, 5, 5, 1, 5, 0}, {2, 3});
  backward_of_ones(amax(x, {1}));
  EXPECT_EQ(gradient(x), (std::vector<double>{0, 0.5, 0.5, 0, 1, 0}));
  x.zero_grad();
  backward_of_ones(max(x, 1).values);
  EXPECT_EQ(gradient(x), (std::vector<double>{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(max(x, -1, true).values.shape(), (Shape{2, 1}));
}

// Ones are summed exactly below 2^24 whatever the order; thirds show how errors add up.
TEST(LongSum, LosesNoMoreThanAShortOne) {
  const std::int64_t n = 5'000'003;
  const Variable ones(Tensor::full({n}, 1.0)), thirds(Tensor::full({n}, 1.0 / 3.0));
  const double third = static_cast<double>(static_cast<float>(1.0 / 3.0));
  EXPECT_EQ(sum(ones).data().item(), static_cast<double>(n));
  EXPECT_EQ(mean(ones).data().item(), 1.0);
  EXPECT_NEAR(sum(thirds).data().item() / (third * static_cast<double>(n)), 1.0, 1e-6);
  const std::int64_t rows = n / 5;
  const Variable columns(Tensor::full({rows, 5}, 1.0 / 3.0));
  for (const float total : sum(columns, {0}).data().to_vector<float>()) {
    EXPECT_NEAR(static_cast<double>(total) / (third * static_cast<double>(rows)), 1.0, 1e-6);
  }
}

// Whole numbers: exact in any order. Lengths around those of lanes and of pieces.
TEST(LongSum, CountsEveryElementOnce) {
  for (const std::int64_t n : {1, 15, 17, 4095, 4096, 4097, 8193, 20001}) {
    std::vector<double> count;
    for (std::int64_t i = 0; i < 3 * n; ++i) count.push_back(static_cast<double>(i));
    const auto total = [&](std::int64_t first, std::int64_t step) {
      return static_cast<double>(n * first + step * n * (n - 1) / 2);
    };
    EXPECT_EQ(values(sum(numbers(count, {3, n}), {1})),
              (std::vector<double>{total(0, 1), total(n, 1), total(2 * n, 1)}));
    EXPECT_EQ(values(sum(numbers(count, {n, 3}), {0})),
              (std::vector<double>{total(0, 3), total(1, 3), total(2, 3)}));
    EXPECT_EQ(values(amax(numbers(count, {3, n}), {1})),
              (std::vector<double>{static_cast<double>(n - 1), static_cast<double>(2 * n - 1),
                                   static_cast<double>(3 * n - 1)}));
  }
}

TEST(Transpose, MovesEveryElementOfShapesThatTilesDoNotDivide) {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{33, 65}, Shape{3, 1000}, Shape{1000, 3}, Shape{31, 7}, Shape{2, 4099}}) {
    const Tensor x = random_tensor(shape, 5);
    const auto in = x.to_vector<double>();
    const auto out = values(transpose(Variable(x), 0, 1));
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        ASSERT_EQ(out[static_cast<std::size_t>(c * shape[0] + r)],
                  in[static_cast<std::size_t>(r * shape[1] + c)]);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::test
