// Attention on every device that there is: as device_products_test.cpp.
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/kernels/sequence/attention.hpp>
#include <lockstep/tensor/kernels/sequence/attention_products.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/sum_dtype.hpp>
#include <lockstep/tensor/tensor.hpp>

#include "math_on.hpp"

namespace lockstep {
namespace {

using test::eighths;
using test::MathOn;
using test::MathPlace;
using test::on;
using test::read;

struct AttentionCase {
  std::int64_t batch, heads, queries, keys, width;
  bool causal = false, mask = false, padding = false, accumulate = false;
};

/// Output, log-sums and gradients, by the operations or, with `by_products`, by what a GPU does;
/// for keys and values of `key_dtype`, which holds them exactly.
std::vector<double> attention(const AttentionCase& c, DType dtype, Device device, bool by_products,
                              DType key_dtype) {
  const std::int64_t batch = c.batch, heads = c.heads, queries = c.queries, keys = c.keys;
  const std::int64_t embed = heads * c.width;
  const auto flags = [&](const Shape& shape, std::int64_t period) {
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int64_t>(i) % period == 0 ? 1.0 : 0.0;
    }
    return Tensor::from(values, shape).to(DType::boolean).to(device);
  };
  AttentionPlan plan{.batch = batch,
                     .heads = heads,
                     .queries = queries,
                     .keys = keys,
                     .width = c.width,
                     .scale = 0.5,
                     .causal = c.causal};
  if (c.mask) plan.mask = flags({queries, keys}, 2);
  if (c.padding) plan.key_padding_mask = flags({batch, keys}, 3);
  const auto make = [&](const Shape& shape, int seed) {
    return on(device, eighths(shape.numel(), seed), dtype).reshape(shape);
  };
  const auto make_sums = [&](int seed) {
    const Shape shape{batch, heads, queries};
    return on(device, eighths(shape.numel(), seed), sum_dtype(dtype)).reshape(shape);
  };
  // Queries [B,T,E]; keys and values side by side [B,S,2 E].
  const Tensor q = make({batch, queries, embed}, 1);
  const Tensor kv = make({batch, keys, 2 * embed}, 2).to(key_dtype);
  const Tensor g = make({batch, queries, embed}, 3), out = make({batch, queries, embed}, 4);
  const Tensor log_sum = make_sums(5);
  const Tensor grad_q = make({batch, queries, embed}, 6),
               grad_kv = make({batch, keys, 2 * embed}, 7);
  const auto whole = [&](const Tensor& t) { return heads_in(t, heads, 0, 1); };
  const auto half = [&](const Tensor& t, int i) { return heads_in(t, heads, i, 2); };
  const auto forward = by_products ? detail::attention_forward_by_products : attention_forward;
  const auto backward = by_products ? detail::attention_backward_by_products : attention_backward;
  forward(plan, whole(q), half(kv, 0), half(kv, 1), whole(out), log_sum);
  backward(plan, whole(g), whole(q), half(kv, 0), half(kv, 1), log_sum,
           {whole(grad_q), c.accumulate}, {half(grad_kv, 0), c.accumulate},
           {half(grad_kv, 1), c.accumulate}, {});
  // Of a block of the keys: with the log-sums and row sums of all.
  const Tensor block_q = make({batch, queries, embed}, 6),
               block_kv = make({batch, keys, 2 * embed}, 7);
  backward(plan, whole(g), whole(q), half(kv, 0), half(kv, 1), log_sum,
           {whole(block_q), c.accumulate}, {half(block_kv, 0), c.accumulate},
           {half(block_kv, 1), c.accumulate}, make_sums(8));
  std::vector<double> all;
  for (const Tensor& t : {out, log_sum, grad_q, grad_kv, block_q, block_kv}) {
    const auto elements = read(t);
    all.insert(all.end(), elements.begin(), elements.end());
  }
  return all;
}

TEST_P(MathOn, AttentionInPartsEqualsAttention) {
  const AttentionCase cases[] = {
      {2, 3, 7, 7, 4, true},
      {3, 2, 5, 9, 8, false, true},
      {2, 2, 6, 6, 4, true, false, true, true},
      {2, 2, 3, 4, 2, false, true, true},
      {1, 4, 1, 5, 4},
      {5, 1, 33, 40, 16, false, false, false, true},
      {0, 2, 3, 3, 4},
  };
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE(&c - cases);
    const auto expect_of_keys = [&](DType dtype, DType key_dtype, double tolerance) {
      const auto expected = attention(c, dtype, {}, false, dtype);
      const auto found = attention(c, dtype, device(), GetParam() == MathPlace::host, key_dtype);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] == expected[i]) continue;  // infinite, too
        ASSERT_NEAR(found[i], expected[i], tolerance) << i;
      }
    };
    // Of 16 bits beside the same numbers in f32, which are of the size of 1.
    const auto expect_narrow = [&](DType dtype, double tolerance) {
      const auto expected = attention(c, DType::f32, {}, false, DType::f32);
      const auto found = attention(c, dtype, device(), GetParam() == MathPlace::host, dtype);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] == expected[i]) continue;
        ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
      }
    };
    const auto expect = [&](DType dtype, double tolerance) {
      expect_of_keys(dtype, dtype, tolerance);
    };
    expect(DType::f64, 1e-13);
    expect(DType::f32, 2e-6);
    for (const DType half : {DType::bf16, DType::f16}) expect_of_keys(DType::f32, half, 2e-6);
    expect_narrow(DType::bf16, 0x1p-6);
    expect_narrow(DType::f16, 0x1p-9);
    const PrecisionGuard bf16(Precision::bf16);
    expect(DType::f32, 0.02);
    for (const DType half : {DType::bf16, DType::f16}) expect_of_keys(DType::f32, half, 0.02);
  }
}

TEST(HostAttention, OfKeysOf16BitsHasTheBitsOfTheirCopiesInF32) {
  const AttentionCase c{2, 2, 6, 6, 4, true, false, true, true};
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16}) {
    const PrecisionGuard guard(precision);
    const auto expected = attention(c, DType::f32, {}, false, DType::f32);
    for (const DType half : {DType::bf16, DType::f16}) {
      EXPECT_EQ(attention(c, DType::f32, {}, false, half), expected) << name_of(half);
    }
  }
}

TEST_P(MathOn, AttentionOf16BitsIsThatOfTheTypesPrecisionInF32Rounded) {
  const AttentionCase c{2, 2, 70, 90, 8, true, false, true, true};
  const auto of = [&](DType dtype) { return attention(c, dtype, device(), false, dtype); };
  for (const auto& [half, precision, unit] :
       {std::tuple{DType::bf16, Precision::bf16, 0x1p-8}, {DType::f16, Precision::fp16, 0x1p-11}}) {
    const auto found = of(half);
    const PrecisionGuard guard(precision);
    const auto expected = of(DType::f32);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == expected[i]) continue;
      ASSERT_NEAR(found[i], expected[i], std::max(unit * std::abs(expected[i]), 1e-5)) << i;
    }
  }
}

}  // namespace
}  // namespace lockstep
