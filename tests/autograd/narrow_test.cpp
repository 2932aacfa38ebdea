// bf16 and f16 variables: operations on them are those in f32 with results rounded once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "operations/operations.hpp"
#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

/// ||a - b|| / ||b||.
double relative(const Tensor& a, const Tensor& b) {
  const auto x = numbers(a), y = numbers(b);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return size == 0 ? difference : std::sqrt(difference / size);
}

/// `values` in rows of `width`, in dtype.
Variable rows_of(const std::vector<float>& values, std::int64_t width, DType dtype) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Variable(Tensor::from(values, {count / width, width}).to(dtype), true);
}

struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
};

enum class Given { leaves, results };

/// Of numbers that bf16 holds exactly, held in `dtype`. Operations may take leaves of 16 bits and
/// results in different ways (is_native); gradients of results go to f32 leaves.
Outcome outcome(const Operation& operation, DType dtype, Given given = Given::leaves) {
  Inputs leaves, inputs;
  for (const Variable& input : make_inputs(operation, DType::f32)) {
    const Tensor numbers = input.data().to(DType::bf16);
    const DType held = given == Given::leaves ? dtype : DType::f32;
    leaves.emplace_back(numbers.to(held).clone(), true);
    inputs.push_back(to(leaves.back(), dtype));
  }
  const Variable y = operation.apply(inputs);
  std::vector<float> weights(static_cast<std::size_t>(y.data().numel()));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.25F + static_cast<float>(i * 37 % 16) / 16;
  }
  const Tensor upstream = Tensor::from(weights, y.shape()).to(y.data().dtype());
  backward(std::span(&y, 1), std::span(&upstream, 1));
  Outcome result{y.data(), {}};
  for (const Variable& leaf : leaves) result.gradients.push_back(leaf.grad());
  return result;
}

TEST(Narrow, EveryOperationIsThatInDoubleWithinARoundingOfItsResults) {
  constexpr std::pair<DType, Given> kinds[] = {{DType::bf16, Given::leaves},
                                               {DType::f16, Given::leaves},
                                               {DType::bf16, Given::results},
                                               {DType::f16, Given::results}};
  int compared = 0;
  for (const Operation& operation : all_operations()) {
    if (std::string(operation.name).find("blocks") != std::string::npos) continue;  // f32 only
    const Outcome exact = outcome(operation, DType::f64);
    for (const auto& [dtype, given] : kinds) {
      SCOPED_TRACE(std::string(operation.name) + " of " + std::string(name_of(dtype)) +
                   (given == Given::leaves ? " leaves" : " results"));
      const double unit = dtype == DType::bf16 ? 0x1p-9 : 0x1p-12;
      const Outcome found = outcome(operation, dtype, given);
      EXPECT_EQ(found.y.dtype(), dtype);
      EXPECT_LT(relative(found.y, exact.y), 4 * unit);
      for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
        ASSERT_EQ(found.gradients[i].defined(), exact.gradients[i].defined()) << i;
        if (!exact.gradients[i].defined()) continue;
        EXPECT_EQ(found.gradients[i].dtype(), given == Given::leaves ? dtype : DType::f32) << i;
        EXPECT_LT(relative(found.gradients[i], exact.gradients[i]), 4 * unit) << i;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 400);
}

/// Numbers that 16 bits hold, without a pattern in rows.
Variable multiples_of_a_sixteenth(const Shape& shape, DType dtype, int step) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * static_cast<std::size_t>(step) % 16) / 16 - 0.5F;
  }
  return Variable(Tensor::from(values, shape).to(dtype));
}

/// Of a sum of the first input's gradient; the inputs are results.
Tensor second_derivative(const Operation& operation, DType dtype) {
  Inputs leaves, inputs;
  for (const Variable& input : make_inputs(operation, DType::f32)) {
    const DType held = dtype == DType::f64 ? DType::f64 : DType::f32;
    leaves.emplace_back(input.data().to(DType::bf16).to(held), true);
    inputs.push_back(to(leaves.back(), dtype));
  }
  const Variable y = operation.apply(inputs);
  const Variable upstream = multiples_of_a_sixteenth(y.shape(), dtype, 37);
  const GradOptions options{.grad_outputs = std::span(&upstream, 1), .create_graph = true};
  const Variable first = grad(y, inputs[0], options);
  EXPECT_EQ(first.data().dtype(), dtype);
  const Variable weights = multiples_of_a_sixteenth(first.shape(), dtype, 29);
  return grad(first, leaves[0], {.grad_outputs = std::span(&weights, 1)}).data();
}

TEST(Narrow, SecondDerivativesAreThoseInDoubleWithinTheRoundingsOfTheirParts) {
  const std::set<std::string_view> names = {"layer_norm",
                                            "rms_norm",
                                            "softmax_rows",
                                            "log_softmax",
                                            "cross_entropy",
                                            "batch_norm",
                                            "batch_norm_residual_relu",
                                            "group_norm",
                                            "instance_norm",
                                            "gelu_exact",
                                            "silu"};
  std::size_t found = 0;
  for (const Operation& operation : all_operations()) {
    if (!names.contains(operation.name)) continue;
    ++found;
    const Tensor exact = second_derivative(operation, DType::f64);
    for (const DType dtype : narrow_types) {
      SCOPED_TRACE(std::string(operation.name) + " of " + std::string(name_of(dtype)));
      const double unit = dtype == DType::bf16 ? 0x1p-9 : 0x1p-12;
      EXPECT_LT(relative(second_derivative(operation, dtype), exact), 16 * unit);
    }
  }
  EXPECT_EQ(found, names.size());
}

TEST(Narrow, AResultIsRoundedOnce) {
  // 1 + 2^-8 is half way between two bf16 numbers: to even.
  const Variable one(Tensor::full({1}, 1.0, DType::bf16)),
      small(Tensor::full({1}, 0x1p-8, DType::bf16));
  EXPECT_EQ((one + small).data().item(), 1.0);
  EXPECT_EQ((one + small * 3.0).data().item(), 1.0 + 0x1p-6);
  // Not in between: the sum of 256 such is exact.
  EXPECT_EQ(sum(Variable(Tensor::full({256}, 1.0 + 0x1p-7, DType::bf16))).data().item(), 258.0);
}

// eps is 0 in f16.
TEST(Narrow, RowsOfZerosHaveNoDirectionAndNoNaN) {
  for (const DType dtype : narrow_types) {
    const Variable zero = rows_of({0, 0}, 2, dtype), one = rows_of({3, 4}, 2, dtype);
    EXPECT_EQ(numbers(normalize(zero).data()), (std::vector<double>{0, 0}));
    EXPECT_EQ(cosine_similarity(zero, one).data().item(), 0.0);
    EXPECT_EQ(cosine_similarity(zero, zero).data().item(), 0.0);
    const auto loss = [&](double target) {
      return cosine_embedding_loss(zero, one, Tensor::full({1}, target)).data().item();
    };
    EXPECT_EQ(loss(1.0), 1.0);
    EXPECT_EQ(loss(-1.0), 0.0);
    EXPECT_EQ(triplet_margin_loss(zero, zero, zero).data().item(), 1.0);
    const Variable wide = rows_of({0, 0, 0, 0}, 4, dtype);
    EXPECT_EQ(pairwise_distance(wide, wide).data().item(), rounded(2e-6, dtype));
  }
}

TEST(Narrow, DistancesAreRoundedOnce) {
  for (const DType dtype : narrow_types) {
    // The length, 84853, is above the largest number of f16.
    const Variable x = rows_of({60000, 60000}, 2, dtype), y = rows_of({1, 2}, 2, dtype);
    for (const double part : numbers(normalize(x).data())) {
      EXPECT_EQ(part, rounded(std::sqrt(0.5), dtype));
    }
    EXPECT_EQ(cosine_similarity(x, x).data().item(), 1.0);
    EXPECT_EQ(cosine_similarity(x, y).data().item(), rounded(3 / std::sqrt(10.0), dtype));
    EXPECT_NEAR(cosine_embedding_loss(y, y, Tensor::full({1}, 1.0)).data().item(), 0.0, 2e-7);
    EXPECT_EQ(cosine_similarity(x, y).data().dtype(), dtype);
    EXPECT_EQ(cosine_similarity(x, to(y, DType::f32)).data().dtype(), DType::f32);
  }
}

TEST(Narrow, AVarianceForARowLeavesTheLossOfItsType) {
  for (const DType dtype : narrow_types) {
    const Variable x = rows_of({1, 2, 3, 4}, 2, dtype), var = rows_of({2, 4}, 1, dtype);
    const Variable loss =
        gaussian_nll_loss(x, Tensor::zeros({2, 2}), var, false, 1e-6, Reduction::sum);
    EXPECT_EQ(loss.data().dtype(), dtype);
    // Half of 2 log 2 + 5 / 2 and 2 log 4 + 25 / 4.
    EXPECT_EQ(loss.data().item(), rounded(3 * std::log(2.0) + 35.0 / 8, dtype));
    loss.backward();
    EXPECT_EQ(numbers(x.grad()), (std::vector<double>{0.5, 1, 0.75, 1}));
  }
}

TEST(Narrow, AQueryWithoutKeysHasZeroWeights) {
  for (const DType dtype : narrow_types) {
    const auto zeros = [&] { return Variable(Tensor::zeros({2, 3, 4}, dtype), true); };
    const Variable q = zeros(), k = zeros(), v(Tensor::full({2, 3, 4}, 1.5, dtype), true);
    AttentionOptions options;
    options.key_padding_mask = Tensor::zeros({2, 3}, DType::boolean);
    options.key_padding_mask.slice(1, 2).fill(1);
    options.key_padding_mask.slice(0, 1).reshape({3}).slice(2, 3).fill(1);
    const auto y = multi_head_attention_with_weights(q, k, v, 2, options);
    EXPECT_EQ(y.weights.data().dtype(), dtype);
    EXPECT_EQ(y.output.data().dtype(), dtype);
    std::vector<double> weights, output(24, 0.0);
    for (int row = 0; row < 3; ++row) weights.insert(weights.end(), {0.5, 0.5, 0.0});
    weights.resize(18, 0.0);
    std::fill_n(output.begin(), 12, 1.5);
    EXPECT_EQ(numbers(y.weights.data()), weights);
    EXPECT_EQ(numbers(y.output.data()), output);

    (sum(y.output * y.output) + sum(y.weights)).backward();
    std::vector<double> slope(24, 0.0);  // 3 queries, each half of 2 * 1.5
    std::fill_n(slope.begin(), 8, 4.5);
    EXPECT_EQ(numbers(v.grad()), slope);
    EXPECT_EQ(numbers(q.grad()), std::vector<double>(24, 0.0));
    const Variable first =
        grad(sum(multi_head_attention(q, k, v, 2, options)), v, {.create_graph = true});
    EXPECT_EQ(numbers(grad(sum(first * first), q).data()), std::vector<double>(24, 0.0));
  }
}

TEST(Narrow, BesideAnotherFloatingTypeResultsAreF32AndGradientsOfEachType) {
  const Variable a(Tensor::full({2}, 1.5, DType::bf16), true), b(Tensor::full({2}, 2.0), true),
      c(Tensor::full({2}, 0.5, DType::f16), true);
  const Variable y = a * b, z = a * c;
  EXPECT_EQ(y.data().dtype(), DType::f32);
  EXPECT_EQ(z.data().dtype(), DType::f32);
  (sum(y) + sum(z)).backward();
  EXPECT_EQ(a.grad().dtype(), DType::bf16);
  EXPECT_EQ(b.grad().dtype(), DType::f32);
  EXPECT_EQ(c.grad().dtype(), DType::f16);
  EXPECT_EQ(numbers(a.grad()), (std::vector<double>{2.5, 2.5}));
}

TEST(Narrow, GradientsOfSeveralUsesAndPassesAddUp) {
  const Variable x(Tensor::full({3}, 3.0, DType::bf16), true);
  for (int pass = 0; pass < 2; ++pass) sum(x * x + x).backward();
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  EXPECT_EQ(numbers(x.grad()), (std::vector<double>{14, 14, 14}));
}

TEST(Narrow, ALeafMayTakeItsGradientInF32) {
  const Variable x(Tensor::full({2}, 1.0, DType::bf16), true);
  x.set_grad_buffer(Tensor::empty({2}, DType::f32));
  for (int pass = 0; pass < 3; ++pass) sum(x * 0x1.01p-9).backward();  // no bf16 number times 3
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  sum(x).backward();
  EXPECT_EQ(numbers(x.grad()), (std::vector<double>{1 + 3 * 0x1.01p-9, 1 + 3 * 0x1.01p-9}));
}

TEST(Narrow, ALeafWithItsGradientInF32HasOneOfItsOwnTypeElsewhere) {
  const Variable x(Tensor::full({2}, 3.0, DType::bf16), true);
  x.set_grad_buffer(Tensor::empty({2}, DType::f32));
  const Tensor slope = grad(sum(x * x), x).data();
  EXPECT_EQ(slope.dtype(), DType::bf16);
  EXPECT_EQ(numbers(slope), (std::vector<double>{6, 6}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Narrow, ProductsAreOfTheOperandsType) {
  // With units for bf16 the sum of products is in another order than in f32: on any processor the
  // operands and the result are rounded, no more.
  const Variable a(Tensor::full({3, 64}, 1.0 + 0x1p-7, DType::bf16), true),
      b(Tensor::full({64, 2}, 1.0 - 0x1p-8, DType::bf16), true);
  const Tensor y = matmul(a, b).data();
  EXPECT_EQ(y.dtype(), DType::bf16);
  const double exact = 64 * (1.0 + 0x1p-7) * (1.0 - 0x1p-8);
  for (const double element : numbers(y)) EXPECT_NEAR(element, exact, exact * 0x1p-8);
}

TEST(Narrow, ADerivativeCanBeDifferentiated) {
  const Variable x(Tensor::full({4}, 2.0, DType::bf16), true);
  const Variable slope = grad(sum(x * x * x), x, {.create_graph = true});
  EXPECT_EQ(slope.data().dtype(), DType::bf16);
  EXPECT_EQ(numbers(slope.data()), (std::vector<double>{12, 12, 12, 12}));
  EXPECT_EQ(numbers(grad(sum(slope), x).data()), (std::vector<double>{12, 12, 12, 12}));
}

TEST(Narrow, OperationsWithoutEffectReturnTheVariableItself) {
  const Variable x(Tensor::full({2, 3}, 1.0, DType::bf16), true);
  EXPECT_EQ(sum_to_size(x, {2, 3}).record(), x.record());
  EXPECT_EQ(to(x, DType::bf16).record(), x.record());
}

}  // namespace
}  // namespace lockstep::test
