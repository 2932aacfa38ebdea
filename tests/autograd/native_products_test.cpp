// Products and attention of bf16 and f16 variables: kept memory, and the types of gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/storage.hpp>

#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

/// Whole eighths of at most 1: sums of their products are exact in f32.
Tensor whole_eighths(const Shape& shape, int seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 5) % 17) / 8 - 1;
  }
  return Tensor::from(values, shape);
}

Variable leaf_of(const Shape& shape, int seed, DType dtype) {
  return Variable(whole_eighths(shape, seed).to(dtype), true);
}

/// As results of operations are: not leaves.
Variable result_of(const Shape& shape, int seed, DType dtype) {
  return to(leaf_of(shape, seed, DType::f32), dtype);
}

/// Bytes that the graph of f() holds, its result included.
template <class F>
std::int64_t bytes_held(const F& f) {
  static_cast<void>(f());  // whatever threads keep
  const std::int64_t before = memory_stats().in_use;
  const auto result = f();
  return memory_stats().in_use - before;
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
  return bytes_held([&] { return Tensor::empty(shape, dtype); });
}

TEST(NativeProducts, TheGraphHoldsTheResultsAlone) {
  for (const DType dtype : narrow_types) {
    SCOPED_TRACE(name_of(dtype));
    const Variable x = result_of({64, 128}, 1, dtype), w = leaf_of({96, 128}, 2, dtype),
                   b = leaf_of({96}, 3, dtype), right = leaf_of({128, 96}, 4, dtype);
    EXPECT_EQ(bytes_held([&] { return linear(x, w, b); }), bytes_of({64, 96}, dtype));
    EXPECT_EQ(bytes_held([&] { return linear_without_values(x, w, b); }),
              bytes_of({64, 96}, dtype));
    EXPECT_EQ(bytes_held([&] { return matmul(x, right); }), bytes_of({64, 96}, dtype));
    EXPECT_EQ(bytes_held([&] { return in_projection(x, x, x, w, b); }),
              3 * bytes_of({64, 32}, dtype));
  }
}

TEST(NativeProducts, ALossOfLogitsHoldsItsGradientsOrTwoNumbersARow) {
  const Tensor target = Tensor::zeros({300}, DType::i64);
  const std::int64_t few = 4 * bytes_of({300}, DType::f32);
  for (const DType dtype : narrow_types) {
    SCOPED_TRACE(name_of(dtype));
    const Variable x = result_of({300, 64}, 1, dtype), w = leaf_of({100, 64}, 2, dtype);
    const auto held = [&](LossGradients when) {
      return bytes_held([&] { return linear_cross_entropy(x, w, target, {}, when); });
    };
    EXPECT_LT(held(LossGradients::in_backward), few);
    if (dtype == DType::f16) {  // needs the scaled loss
      EXPECT_LT(held(LossGradients::in_forward), few);
    } else {
      const std::int64_t gradients =
          bytes_of({300, 64}, DType::f32) + bytes_of({100, 64}, DType::f32);
      EXPECT_GE(held(LossGradients::in_forward), gradients);
      EXPECT_LT(held(LossGradients::in_forward), gradients + few);
    }
    const NoGradGuard no_grad;
    EXPECT_LT(held(LossGradients::in_forward), few);
  }
}

TEST(NativeProducts, TheGradientOfTheWeightOfALossIsRoundedOnceHoweverManyChunksAddToIt) {
  // Equal logits: each row adds half of its x to the gradient of one class and takes it from that
  // of the other. Rounded after each chunk of 256 rows they would sum to 450.
  const Variable x(Tensor::full({1792, 1}, 0.50390625, DType::bf16));
  const Tensor target = Tensor::zeros({1792}, DType::i64);
  LossOptions options;
  options.reduction = Reduction::sum;
  for (const LossGradients when : {LossGradients::in_forward, LossGradients::in_backward}) {
    const auto slope = [&](DType memory) {
      const Variable w(Tensor::zeros({2, 1}, DType::bf16), true);
      w.set_grad_buffer(Tensor::empty(w.shape(), memory));
      linear_cross_entropy(x, w, target, options, when).backward();
      return numbers(w.grad());
    };
    EXPECT_EQ(slope(DType::f32), (std::vector<double>{-451.5, 451.5}));
    EXPECT_EQ(slope(DType::bf16), (std::vector<double>{-452, 452}));
  }
}

TEST(NativeProducts, AttentionHoldsItsResultAndOneNumberARow) {
  for (const DType dtype : narrow_types) {
    SCOPED_TRACE(name_of(dtype));
    const Variable qkv = result_of({2, 64, 3 * 128}, 1, dtype),
                   q = result_of({2, 64, 128}, 2, dtype), k = result_of({2, 64, 128}, 3, dtype);
    const std::int64_t expected = bytes_of({2, 64, 128}, dtype) + bytes_of({2, 4, 64}, DType::f32);
    EXPECT_EQ(bytes_held([&] { return self_attention(qkv, 4); }), expected);
    EXPECT_EQ(bytes_held([&] { return multi_head_attention(q, k, k, 4); }), expected);
  }
}

TEST(NativeProducts, AParametersGradientHasTheTypeOfItsMemory) {
  for (const DType dtype : narrow_types) {
    SCOPED_TRACE(name_of(dtype));
    const auto gradients = [&](DType memory) {
      const Variable w = leaf_of({16, 24}, 2, dtype), b = leaf_of({16}, 3, dtype),
                     m = leaf_of({16, 8}, 4, dtype);
      for (const Variable& parameter : {w, b, m}) {
        parameter.set_grad_buffer(Tensor::empty(parameter.shape(), memory));
      }
      for (int pass = 0; pass < 2; ++pass) {
        const Variable y = matmul(linear(result_of({40, 24}, 1, dtype), w, b), m);
        const Tensor upstream = whole_eighths(y.shape(), 5).to(dtype);
        backward(std::span(&y, 1), std::span(&upstream, 1));
      }
      return std::vector<Tensor>{w.grad(), b.grad(), m.grad()};
    };
    const auto wide = gradients(DType::f32), narrow = gradients(dtype);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(wide[i].dtype(), DType::f32);
      EXPECT_EQ(narrow[i].dtype(), dtype);
      // The second pass adds the same again: each sum is rounded once, and twice it is exact.
      EXPECT_EQ(numbers(narrow[i]), numbers(wide[i].to(dtype))) << i;
    }
    EXPECT_NE(numbers(wide[0]), numbers(narrow[0]));  // there was something to round
  }
}

TEST(NativeProducts, ABiasInF32MakesTheResultF32) {
  for (const DType dtype : narrow_types) {
    SCOPED_TRACE(name_of(dtype));
    const Variable x = leaf_of({5, 8}, 1, dtype), w = leaf_of({4, 8}, 2, dtype);
    const Variable b(Tensor::full({4}, 0x1p-14), true);  // 16 bits would lose it
    const Variable y = linear(x, w, b);
    EXPECT_EQ(y.data().dtype(), DType::f32);
    const auto wide = [](const Variable& t) { return to(t, DType::f64); };
    EXPECT_EQ(numbers(y.data()), numbers(linear(wide(x), wide(w), wide(b)).data()));
    sum(y).backward();
    EXPECT_EQ(x.grad().dtype(), dtype);
    EXPECT_EQ(w.grad().dtype(), dtype);
    EXPECT_EQ(b.grad().dtype(), DType::f32);
    EXPECT_EQ(numbers(b.grad()), std::vector<double>(4, 5));
    for (const Variable& part : in_projection(x, x, x, leaf_of({12, 8}, 2, dtype),
                                              Variable(Tensor::full({12}, 0x1p-14)))) {
      EXPECT_EQ(part.data().dtype(), DType::f32);
    }
    const Variable again = linear(x, w, b);
    const Variable slope = grad(sum(again * again), x, {.create_graph = true});
    EXPECT_EQ(slope.data().dtype(), dtype);
    EXPECT_EQ(grad(sum(slope), w).data().dtype(), dtype);
  }
}

TEST(NativeProducts, SecondDerivativesAreThoseInDoubleWithinRoundings) {
  for (const DType dtype : narrow_types) {
    SCOPED_TRACE(name_of(dtype));
    const auto second = [](DType of) {
      const Variable x = leaf_of({6, 8}, 1, of), w = leaf_of({4, 8}, 2, of),
                     b = leaf_of({4}, 3, of), m = leaf_of({4, 12}, 4, of);
      const Variable qkv = reshape(matmul(linear(x, w, b), m) * 0.0625, {1, 6, 12});
      const Variable loss = sum(self_attention(qkv, 2) * 0.25);
      const Variable slope = grad(loss, x, {.create_graph = true});
      return numbers(grad(sum(slope * slope), w).data());
    };
    const auto exact = second(DType::f64), found = second(dtype);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      difference += (found[i] - exact[i]) * (found[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    EXPECT_LT(std::sqrt(difference / size), 32 * (dtype == DType::bf16 ? 0x1p-9 : 0x1p-12));
  }
}

TEST(NativeProducts, AGradientOfKeysIsRoundedOnceHoweverManyBlocksOfQueriesAddToIt) {
  // One key, which each of 300 queries sees: five blocks. Rounded after each they would give 155.
  const double upstream = 0.51953125;
  const Variable q = result_of({1, 300, 4}, 1, DType::bf16),
                 k = result_of({1, 1, 4}, 2, DType::bf16);
  const Variable v(Tensor::zeros({1, 1, 4}), true);
  AttentionOptions causal;
  causal.causal = true;
  const Variable y = multi_head_attention(q, k, to(v, DType::bf16), 1, causal);
  const Tensor gradient = Tensor::full(y.shape(), upstream, DType::bf16);
  backward(std::span(&y, 1), std::span(&gradient, 1));
  EXPECT_EQ(numbers(v.grad()), std::vector<double>(4, 156));
}

}  // namespace
}  // namespace lockstep::test
