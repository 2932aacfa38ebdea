#include <gtest/gtest.h>

#include <cmath>
#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/half.hpp>

namespace lockstep {
namespace {

Tensor waves(const Shape& shape, double phase) {
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return Tensor::from(numbers, shape);
}

Tensor rounded(const Tensor& x) { return x.to(DType::bf16).to(DType::f32); }

/// ||a - b|| / ||b||.
double relative(const Tensor& a, const Tensor& b) {
  const auto x = a.to(DType::f64).to_vector<double>(), y = b.to(DType::f64).to_vector<double>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

TEST(Autocast, BackwardIsInThePrecisionOfForwardWhereverItRuns) {
  const Variable x(waves({4, 8}, 0.1), true), w(waves({3, 8}, 0.5), true);
  Variable y;
  {
    const Autocast autocast(Precision::bf16);
    y = linear(x, w, {});
  }
  EXPECT_EQ(y.data().dtype(), DType::f32);
  EXPECT_EQ(product_precision(), Precision::f32);
  const Tensor upstream = waves({4, 3}, 0.9);
  sum(y * Variable(upstream)).backward();
  // The same of rounded operands, in f32.
  const Variable rx(rounded(x.data()), true), rw(rounded(w.data()), true);
  const Variable ry = linear(rx, rw, {});
  sum(ry * Variable(rounded(upstream))).backward();
  EXPECT_LT(relative(y.data(), ry.data()), 1e-6);
  EXPECT_LT(relative(x.grad(), rx.grad()), 1e-6);
  EXPECT_LT(relative(w.grad(), rw.grad()), 1e-6);
  // And not of the operands as they are.
  EXPECT_GT(relative(y.data(), linear(x, w, {}).data()), 1e-4);
}

/// A small network of every operation that has products.
Variable network(const Variable& x, const std::vector<Variable>& w) {
  const Variable h = gelu(linear(x, w[0], w[1]));
  const Variable heads = reshape(h, {2, 1, 8, 8});
  const Variable seen = scaled_dot_product_attention(heads, heads, heads, {.causal = true});
  const Variable y = matmul(reshape(seen, {16, 8}), w[2]);
  return sum(y * y);
}

TEST(Autocast, GradientsAreThoseInDoubleWithinTheRoundingOf16Bits) {
  const auto gradients = [](DType dtype, Precision precision) {
    const std::vector<Tensor> values{waves({16, 12}, 0), waves({8, 12}, 1), waves({8}, 2),
                                     waves({8, 5}, 3)};
    std::vector<Variable> v;
    for (const Tensor& value : values) v.emplace_back(value.to(dtype).clone(), true);
    {
      const Autocast autocast(precision);
      network(v[0], {v[1], v[2], v[3]}).backward();
    }
    std::vector<Tensor> found;
    for (const Variable& one : v) found.push_back(one.grad());
    return found;
  };
  const auto exact = gradients(DType::f64, Precision::bf16);
  // In f32 8e-6: what the network makes of a rounding.
  for (const auto& [precision, unit] : {std::pair{Precision::f32, 0x1p-19},
                                        {Precision::bf16, 0x1p-9},
                                        {Precision::fp16, 0x1p-12}}) {
    const auto found = gradients(DType::f32, precision);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), DType::f32);
      EXPECT_LT(relative(found[i], exact[i]), 16 * unit) << i;
      if (precision != Precision::f32) {
        EXPECT_GT(relative(found[i], exact[i]), unit / 64) << i;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
