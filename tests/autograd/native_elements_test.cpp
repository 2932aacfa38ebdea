// What elementwise operations, sums and copies of bf16 and f16 promise beside accuracy
// (narrow_test) and memory (native_test).
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>
#include <lockstep/tensor/storage.hpp>

#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

std::vector<double> repeated(std::int64_t count, double value) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

/// A result of `dtype` that depends on a leaf, as activations do: parameters may be taken by way of
/// f32.
Variable activation(const Shape& shape, double value, DType dtype) {
  return to(Variable(Tensor::full(shape, value, DType::f64), true), dtype);
}

/// Half as many again as y's; what is held is rounded up to the allocator's sizes.
std::int64_t bytes_of_more_than(const Variable& y) {
  return static_cast<std::int64_t>(y.data().bytes()) * 3 / 2;
}

void backward_of(const Variable& y, double upstream) {
  const Tensor gradient = Tensor::full(y.shape(), upstream, y.data().dtype());
  backward(std::span(&y, 1), std::span(&gradient, 1));
}

TEST(NativeElements, ASumOfF32And16BitsIsF32AndHoldsNoCopy) {
  for (const DType dtype : narrow_types) {
    for (const bool wide_first : {true, false}) {
      const Variable leaf(Tensor::full({64, 1024}, 1 + 0x1p-7, DType::f32), true);
      const Variable wide(Tensor::full({64, 1024}, 0x1p-12), true), narrow = to(leaf, dtype);
      const std::int64_t before = memory_stats().in_use;
      const Variable y = wide_first ? wide + narrow : narrow + wide;
      EXPECT_LT(memory_stats().in_use - before, bytes_of_more_than(y));
      EXPECT_EQ(y.data().dtype(), DType::f32);
      EXPECT_EQ(numbers(y.data()), repeated(y.data().numel(), 1 + 0x1p-7 + 0x1p-12));

      const Variable narrow_only = grad(sum(y * (1 + 0x1p-12)), narrow, {.retain_graph = true});
      EXPECT_EQ(narrow_only.data().dtype(), dtype);
      EXPECT_EQ(narrow_only.data()[0][0].item(), 1.0);
      backward_of(y, 1 + 0x1p-12);
      EXPECT_EQ(numbers(wide.grad()), repeated(y.data().numel(), 1 + 0x1p-12));
      EXPECT_EQ(numbers(leaf.grad()), repeated(y.data().numel(), 1.0));  // rounded on the way
    }
  }
}

TEST(NativeElements, ASumOfF32And16BitsCanBeDifferentiatedTwice) {
  const Variable x(Tensor::full({4}, 2.0), true);
  const Variable narrow = to(x, DType::bf16), y = x * x + narrow * narrow;
  EXPECT_EQ(y.data().dtype(), DType::f32);
  const Variable slope = grad(sum(y * y), x, {.create_graph = true});
  EXPECT_EQ(numbers(slope.data()), repeated(4, 128));                // 16 x^3
  EXPECT_EQ(numbers(grad(sum(slope), x).data()), repeated(4, 192));  // 48 x^2
}

// A fallback by way of f32 would hold the f32 copy of x, the larger operand.
TEST(NativeElements, AParameterIsAddedAsItIsAndItsGradientMayBeF32) {
  for (const DType dtype : narrow_types) {
    for (const DType of_gradient : {dtype, DType::f32}) {
      const Variable bias(Tensor::full({8}, 1.0, dtype), true);
      bias.set_grad_buffer(Tensor::empty({8}, of_gradient));
      const Variable x = activation({300, 8}, 2.0, dtype);
      const std::int64_t before = memory_stats().in_use;
      const Variable y = x + bias;
      EXPECT_LT(memory_stats().in_use - before, bytes_of_more_than(y));
      EXPECT_EQ(y.data().dtype(), dtype);
      backward_of(y, 1);
      EXPECT_EQ(bias.grad().dtype(), of_gradient);
      EXPECT_EQ(numbers(bias.grad()), repeated(8, 300));
      backward_of(bias + activation({300, 8}, 2.0, dtype), 1);
      EXPECT_EQ(numbers(bias.grad()), repeated(8, 600));
      bias.zero_grad();
      backward_of(reshape(bias, {2, 4}), 3);
      backward_of(bias + bias, 3);
      EXPECT_EQ(numbers(bias.grad()), repeated(8, 9));
    }
  }
}

TEST(NativeElements, ANumberIsNotRoundedTo16Bits) {
  const double factor = 1 + 0x3p-9;  // bf16 would hold 1 + 2^-7
  const Variable x = activation({3}, 3.0, DType::bf16);
  EXPECT_EQ(numbers((x * factor).data()), repeated(3, 3 + 0x1p-6));
  EXPECT_EQ(numbers((x / (1 / factor)).data()), repeated(3, 3 + 0x1p-6));
  const Variable y = x + (0x1p-7 + 0x1p-16);  // above the middle of two numbers
  EXPECT_EQ(numbers(y.data()), repeated(3, 3 + 0x1p-6));
  const Tensor t = Tensor::full({3}, 3.0, DType::bf16);
  t *= factor;
  EXPECT_EQ(numbers(t), repeated(3, 3 + 0x1p-6));
}

TEST(NativeElements, TheGradientOfADivisorDoesNotOverflowOnTheWay) {
  const Variable a(Tensor::full({2, 3}, 60000.0), true), b(Tensor::full({3}, 100.0), true);
  const Variable narrow_a = to(a, DType::f16), narrow_b = to(b, DType::f16);
  backward_of(narrow_a / narrow_b, 200);  // 200 * 600 is infinite in f16
  EXPECT_EQ(numbers(b.grad()), repeated(3, -2400));
  b.zero_grad();
  backward_of(60000.0 / to(b, DType::f16), 200);
  EXPECT_EQ(numbers(b.grad()), repeated(3, -1200));
}

TEST(NativeElements, DropoutDropsTheSameAsInF32AndScalesByTheExactNumber) {
  const RandomKey key{.seed = 3, .stream = 1, .step = 2};
  for (const DType dtype : narrow_types) {
    const Variable wide(Tensor::full({16, 8, 5}, 10.0), true);
    for (const bool channels : {false, true}) {
      const auto drop = [&](const Variable& x) {
        return channels ? dropout1d(x, 0.1, key) : dropout(x, 0.1, key);
      };
      const Variable y = drop(to(wide, dtype));
      EXPECT_EQ(y.data().dtype(), dtype);
      EXPECT_EQ(numbers(y.data()), numbers(drop(wide).data().to(dtype)));
      wide.zero_grad();
      backward_of(y, 10);
      EXPECT_EQ(numbers(wide.grad()), numbers(y.data()));
    }
  }
}

TEST(NativeElements, AnElementChosenOftenHasTheSumOfItsGradients) {
  for (const DType dtype : narrow_types) {
    const Variable x(Tensor::full({2}, 1.0), true);
    const Tensor first = Tensor::zeros({3000}, DType::i64);
    backward_of(gather(to(x, dtype), 0, first), 1);  // a sum of ones in bf16 would end at 256
    EXPECT_EQ(numbers(x.grad()), (std::vector<double>{rounded(3000, dtype), 0}));
  }
}

TEST(NativeElements, SumsOfAnyShapeAreRoundedOnce) {
  for (const DType dtype : narrow_types) {
    // In pieces, along several dimensions, rows, columns and short rows.
    const Shape full{3, 5000, 7};
    const Tensor x = Tensor::full(full, 1 + 0x1p-7, dtype);
    for (const Shape& kept : {Shape{1, 1, 1}, Shape{3, 1, 7}, Shape{1, 5000, 1}, Shape{3, 5000, 1},
                              Shape{1, 5000, 7}, Shape{3, 5000, 7}}) {
      const auto count = static_cast<double>(full.numel() / kept.numel());
      const double divisor = count / 2;
      for (const DType of_result : {dtype, DType::f32}) {
        SCOPED_TRACE(to_string(kept) + " of " + std::string(name_of(of_result)));
        const Tensor y = Tensor::full(kept, 8.0, of_result);
        reduce_sum(x, divisor, false, y);
        const double twice = 2 + 0x1p-6;
        EXPECT_NEAR(y.to(DType::f64).reshape({kept.numel()})[0].item(), twice, 1e-5);
        reduce_sum(x, divisor / 64, true, y);
        EXPECT_NEAR(y.to(DType::f64).reshape({kept.numel()})[kept.numel() - 1].item(),
                    of_result == DType::f32 ? 65 * twice : rounded(65 * twice, dtype), 1e-4);
      }
    }
  }
}

TEST(NativeElements, AGradientIsAddedAcrossTypesAndRoundedOnce) {
  for (const DType dtype : narrow_types) {
    const Tensor narrow = Tensor::full({100}, 1.0, dtype), wide = Tensor::full({100}, 0x1p-12);
    add_scaled(wide, 1.0, narrow);
    EXPECT_EQ(numbers(narrow), repeated(100, rounded(1 + 0x1p-12, dtype)));
    add_scaled(narrow, 0.5, wide);
    EXPECT_EQ(numbers(wide), repeated(100, 0.5 + 0x1p-12));
    const Tensor step = Tensor::full({100}, 3.0, dtype);
    add_scaled(step, 1 + 0x1p-20, narrow);  // the product is not rounded
    EXPECT_EQ(numbers(narrow), repeated(100, 4.0));
    scale(narrow, 0.75 + 0x1p-20);
    EXPECT_EQ(numbers(narrow), repeated(100, 3.0));
  }
}

}  // namespace
}  // namespace lockstep::test
