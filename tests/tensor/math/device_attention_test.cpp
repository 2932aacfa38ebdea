// Attention on every device that there is: as device_products_test.cpp.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
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
  const auto backward = [&](const AttentionGrad& to_q, const AttentionGrad& to_k,
                            const AttentionGrad& to_v, const Tensor& dots) {
    if (by_products) {
      detail::attention_backward_by_products(plan, whole(g), whole(q), half(kv, 0), half(kv, 1),
                                             log_sum, to_q, to_k, to_v, dots);
    } else {
      attention_backward(plan, whole(g), whole(q), half(kv, 0), half(kv, 1), log_sum, to_q, to_k,
                         to_v, dots, whole(out));
    }
  };
  if (by_products) {
    detail::attention_forward_by_products(plan, whole(q), half(kv, 0), half(kv, 1), whole(out),
                                          log_sum);
  } else {
    attention_forward(plan, whole(q), half(kv, 0), half(kv, 1), whole(out), log_sum);
  }
  backward({whole(grad_q), c.accumulate}, {half(grad_kv, 0), c.accumulate},
           {half(grad_kv, 1), c.accumulate}, {});
  // Of a block of the keys: with the log-sums and row sums of all.
  const Tensor block_q = make({batch, queries, embed}, 6),
               block_kv = make({batch, keys, 2 * embed}, 7);
  backward({whole(block_q), c.accumulate}, {half(block_kv, 0), c.accumulate},
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
      {2, 2, 24, 40, 16},
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

/// Hides every third key of sample 0, with the first one, all keys of sample 1, and none of others.
Tensor padding_of(const AttentionCase& c) {
  std::vector<double> hidden;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t s = 0; s < c.keys; ++s) {
      hidden.push_back(b == 1 || (b == 0 && s % 3 == 0) ? 1 : 0);
    }
  }
  return Tensor::from(hidden, {c.batch, c.keys}).to(DType::boolean);
}

/// Of attention among [B,T,3 E], where the rows of a head lie between those of others.
struct Packed {
  std::vector<std::vector<double>> tensors;  ///< output, log-sums, packed gradient
  bool forward_fused = false, backward_fused = false;
};

Packed packed_attention(const AttentionCase& c, DType dtype, Device device) {
  const std::int64_t embed = c.heads * c.width;
  AttentionPlan plan{.batch = c.batch,
                     .heads = c.heads,
                     .queries = c.queries,
                     .keys = c.queries,
                     .width = c.width,
                     .scale = 1 / std::sqrt(static_cast<double>(c.width)),
                     .causal = c.causal};
  if (c.padding) plan.key_padding_mask = padding_of(c).to(device);
  const auto make = [&](std::int64_t width, int seed) {
    const Shape shape{c.batch, c.queries, width};
    return on(device, eighths(shape.numel(), seed), dtype).reshape(shape);
  };
  const Tensor qkv = make(3 * embed, 1), g = make(embed, 2), out = make(embed, 3);
  const Tensor grad = make(3 * embed, 4);
  const Tensor log_sum = Tensor::empty({c.batch, c.heads, c.queries}, sum_dtype(dtype), device);
  const auto part = [&](const Tensor& t, int i) { return heads_in(t, c.heads, i, 3); };
  const auto whole = [&](const Tensor& t) { return heads_in(t, c.heads, 0, 1); };
  Packed result;
  result.forward_fused =
      attention_forward(plan, part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), log_sum);
  result.backward_fused =
      attention_backward(plan, whole(g), part(qkv, 0), part(qkv, 1), part(qkv, 2), log_sum,
                         {part(grad, 0)}, {part(grad, 1)}, {part(grad, 2)}, {}, whole(out));
  for (const Tensor& t : {out, log_sum, grad}) result.tensors.push_back(read(t));
  return result;
}

/// Each element within `tolerance` of the largest finite one that is expected, or of 1.
void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 1;
  for (const double x : expected) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;  // infinite, too
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << i;
  }
}

/// Lengths within and beyond the blocks of a GPU's kernels, one query, and widths that its library
/// computes at once, or, like the last, not.
std::vector<AttentionCase> packed_cases(bool long_ones) {
  std::vector<AttentionCase> cases;
  for (const bool causal : {false, true}) {
    for (const std::int64_t width : {64, 128}) {
      for (const std::int64_t length : {77, 1, 2}) {
        cases.push_back({2, 2, length, length, width, causal});
      }
      if (long_ones) cases.push_back({2, 2, 1024, 1024, width, causal});
    }
    cases.push_back({2, 3, 40, 40, 8, causal});
    cases.push_back({2, 3, 40, 40, 12, causal});
    for (const std::int64_t length : {77, 2}) {
      cases.push_back({3, 2, length, length, 64, causal, false, true});
    }
    if (long_ones) cases.push_back({3, 2, 1024, 1024, 64, causal, false, true});
  }
  return cases;
}

TEST_P(MathOn, PackedAttentionOf16BitsIsThatOfF32RoundedAndTheSameBitsEveryTime) {
  std::string by_products;
  for (const AttentionCase& c : packed_cases(GetParam() == MathPlace::gpu)) {
    const auto expected = packed_attention(c, DType::f32, {}).tensors;
    for (const auto& [dtype, tolerance] : {std::pair{DType::bf16, 0x1p-6}, {DType::f16, 0x1p-9}}) {
      const std::string name = std::string(name_of(dtype)) + ", length " +
                               std::to_string(c.queries) + ", width " + std::to_string(c.width) +
                               (c.causal ? ", causal" : "") + (c.padding ? ", padded" : "");
      SCOPED_TRACE(name);
      const Packed found = packed_attention(c, dtype, device());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(i);
        expect_near(found.tensors[i], expected[i], tolerance);
      }
      EXPECT_EQ(packed_attention(c, dtype, device()).tensors, found.tensors);
      if (c.width % 8 != 0 || !is_gpu()) {
        EXPECT_FALSE(found.forward_fused || found.backward_fused);
        continue;
      }
      if (!found.forward_fused) by_products += "\n  forward of " + name;
      if (!found.backward_fused && c.queries > 1) by_products += "\n  backward of " + name;
    }
  }
  if (GetParam() == MathPlace::stand_in) {
    EXPECT_EQ(by_products, "");
  } else if (!by_products.empty()) {
    GTEST_SKIP() << "right, but by products:" << by_products;
  }
}

/// Of attention among heads apart, [B,H,T,D] and [B,H / group,S,D].
struct GroupedResults {
  std::vector<std::vector<double>> tensors;  ///< output, log-sums, gradients of q, k and v
  bool forward_fused = false, backward_fused = false;
};

/// If `repeats`, each head of the keys and values stands in memory for each of its query heads; the
/// gradients are those of the heads that were repeated, as sums in double.
GroupedResults grouped_attention(const AttentionCase& c, std::int64_t group, bool repeats,
                                 DType dtype, Device device) {
  const std::int64_t key_heads = c.heads / group, head = c.keys * c.width;
  AttentionPlan plan{.batch = c.batch,
                     .heads = c.heads,
                     .queries = c.queries,
                     .keys = c.keys,
                     .width = c.width,
                     .scale = 0.5,
                     .causal = c.causal};
  if (c.padding) plan.key_padding_mask = padding_of(c).to(device);
  if (!repeats) plan.group_heads = group;
  const auto make = [&](std::int64_t heads, std::int64_t rows, int seed) {
    const Shape shape{c.batch, heads, rows, c.width};
    return on(device, eighths(shape.numel(), seed), dtype).reshape(shape);
  };
  const auto of_keys = [&](int seed) {
    const Tensor each = make(key_heads, c.keys, seed);
    if (!repeats) return each;
    const auto from = read(each);
    std::vector<double> all;
    for (std::int64_t h = 0; h < c.batch * key_heads; ++h) {
      for (std::int64_t i = 0; i < group; ++i) {
        all.insert(all.end(), from.begin() + h * head, from.begin() + (h + 1) * head);
      }
    }
    return on(device, all, dtype).reshape({c.batch, c.heads, c.keys, c.width});
  };
  const Tensor q = make(c.heads, c.queries, 1), k = of_keys(2), v = of_keys(3);
  const Tensor g = make(c.heads, c.queries, 4), out = Tensor::empty_like(q);
  const Tensor grad_q = make(c.heads, c.queries, 5);
  const Tensor grad_k = make(k.size(1), c.keys, 6), grad_v = make(k.size(1), c.keys, 7);
  const Tensor log_sum = Tensor::empty({c.batch, c.heads, c.queries}, sum_dtype(dtype), device);
  GroupedResults result;
  result.forward_fused =
      attention_forward(plan, heads_of(q), heads_of(k), heads_of(v), heads_of(out), log_sum);
  result.backward_fused = attention_backward(
      plan, heads_of(g), heads_of(q), heads_of(k), heads_of(v), log_sum, {heads_of(grad_q)},
      {heads_of(grad_k)}, {heads_of(grad_v)}, {}, heads_of(out));
  for (const Tensor& t : {out, log_sum, grad_q, grad_k, grad_v}) result.tensors.push_back(read(t));
  if (!repeats) return result;
  for (std::size_t which : {3, 4}) {
    std::vector<double> sums(static_cast<std::size_t>(c.batch * key_heads * head));
    for (std::size_t i = 0; i < result.tensors[which].size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      sums[static_cast<std::size_t>(at / (group * head) * head + at % head)] +=
          result.tensors[which][i];
    }
    result.tensors[which] = sums;
  }
  return result;
}

TEST_P(MathOn, AttentionToFewerHeadsIsThatToRepeatedOnes) {
  struct Case {
    AttentionCase sizes;
    std::int64_t group;
  };
  const Case cases[] = {{{2, 6, 24, 40, 16}, 3},
                        {{3, 4, 40, 40, 16, true, false, true}, 2},
                        {{2, 4, 70, 70, 8, true}, 4},
                        {{1, 4, 1, 9, 16}, 2}};
  for (const auto& [c, group] : cases) {
    const auto expected = grouped_attention(c, group, true, DType::f64, {}).tensors;
    for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-13},
                                           {DType::f32, 2e-6},
                                           {DType::bf16, 0x1p-6},
                                           {DType::f16, 0x1p-9}}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + ", " + std::to_string(c.heads) + " heads of " +
                   std::to_string(c.queries) + " queries, in groups of " + std::to_string(group));
      const GroupedResults found = grouped_attention(c, group, false, dtype, device());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(i);
        expect_near(found.tensors[i], expected[i], tolerance);
      }
      EXPECT_EQ(grouped_attention(c, group, false, dtype, device()).tensors, found.tensors);
      if (GetParam() == MathPlace::stand_in) {
        const bool fuses = sum_dtype(dtype) != dtype && c.queries > 1;
        EXPECT_EQ(found.forward_fused, fuses);
        EXPECT_EQ(found.backward_fused, fuses);
      }
    }
  }
}

TEST(HostAttention, ToFewerHeadsHasTheBitsOfRepeatedOnes) {
  const AttentionCase c{2, 6, 70, 75, 8, true};
  const auto found = grouped_attention(c, 3, false, DType::f32, {}).tensors;
  const auto expected = grouped_attention(c, 3, true, DType::f32, {}).tensors;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], expected[i]) << i;
}

/// How many passes of a forward and backward the stand-in's library computes, with these options.
struct FusedCase {
  AttentionCase sizes{2, 2, 24, 24, 16};
  DType dtype = DType::bf16;
  bool gives_out = true, gives_dots = false, wants_keys = true;
  std::int64_t shift = 0;  ///< elements that lie before the queries
};

int fused_passes(const FusedCase& options) {
  const test::GpuStandIn stand_in;
  const AttentionCase& c = options.sizes;
  const Device device{DeviceType::sim, 0};
  const AttentionPlan plan{
      .batch = c.batch,
      .heads = c.heads,
      .queries = c.queries,
      .keys = c.keys,
      .width = c.width,
      .scale = 1,
      .causal = c.causal,
      .mask = c.mask ? Tensor::full({c.queries, c.keys}, 1, DType::boolean, device) : Tensor(),
      .key_padding_mask =
          c.padding ? Tensor::zeros({c.batch, c.keys}, DType::boolean, device) : Tensor()};
  const auto heads = [&](std::int64_t rows, std::int64_t shift = 0) {
    const std::int64_t head = rows * c.width, batch = c.heads * head;
    return Heads{Tensor::zeros({c.batch * batch + shift}, options.dtype, device), shift, batch,
                 head, c.width};
  };
  const Heads q = heads(c.queries, options.shift), k = heads(c.keys), v = heads(c.keys);
  const Heads out = heads(c.queries), g = heads(c.queries);
  const Tensor log_sum = Tensor::zeros({c.batch, c.heads, c.queries}, DType::f32, device);
  const int before = test::GpuStandIn::attentions();
  const bool fused = attention_forward(plan, q, k, v, out, log_sum);
  EXPECT_EQ(test::GpuStandIn::attentions() - before, fused ? 1 : 0);
  const AttentionGrad to_keys =
      options.wants_keys ? AttentionGrad{heads(c.keys), c.accumulate} : AttentionGrad{};
  const int after_forward = test::GpuStandIn::attentions();
  const bool backward_fused = attention_backward(
      plan, g, q, k, v, log_sum, {heads(c.queries)}, to_keys, {heads(c.keys)},
      options.gives_dots ? Tensor::zeros(log_sum.shape(), DType::f32, device) : Tensor(),
      options.gives_out ? out : Heads{});
  EXPECT_EQ(test::GpuStandIn::attentions() - after_forward, backward_fused ? 1 : 0);
  return test::GpuStandIn::attentions() - before;
}

TEST_P(MathOn, APaddedQueryThatSeesNoKeyGivesZeros) {
  const AttentionCase c{3, 2, 24, 24, 16, true, false, true};
  const Packed found = packed_attention(c, DType::bf16, device());
  EXPECT_TRUE(GetParam() != MathPlace::stand_in || (found.forward_fused && found.backward_fused));
  const std::int64_t embed = c.heads * c.width;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t t = 0; t < c.queries; ++t) {
      const bool is_blind = b == 1 || (b == 0 && t == 0);
      const std::int64_t row = b * c.queries + t;
      const auto is_zero = [](double x) { return x == 0; };
      const auto out = found.tensors[0].begin() + row * embed;
      EXPECT_EQ(std::all_of(out, out + embed, is_zero), is_blind) << b << ", " << t;
      const auto grad_q = found.tensors[2].begin() + row * 3 * embed;
      EXPECT_TRUE(!is_blind || std::all_of(grad_q, grad_q + embed, is_zero)) << b << ", " << t;
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const auto i = static_cast<std::size_t>((b * c.heads + h) * c.queries + t);
        EXPECT_EQ(std::isinf(found.tensors[1][i]), is_blind) << b << ", " << t;
      }
    }
  }
}

TEST(FusedAttention, IsOfOne16BitTypeWithoutAMaskAndSums) {
  const auto expect = [](const char* what, int passes, FusedCase options) {
    EXPECT_EQ(fused_passes(options), passes) << what;
  };
  expect("bf16", 2, {});
  expect("f16", 2, {.dtype = DType::f16});
  expect("causal", 2, {.sizes = {2, 2, 24, 24, 16, true}});
  expect("other keys", 2, {.sizes = {2, 2, 24, 40, 16}});
  expect("f32", 0, {.dtype = DType::f32});
  expect("a mask", 0, {.sizes = {2, 2, 24, 24, 16, false, true}});
  expect("a padding mask", 2, {.sizes = {2, 2, 24, 24, 16, false, false, true}});
  expect("causal with a padding mask", 2, {.sizes = {2, 2, 24, 24, 16, true, false, true}});
  expect("a padding mask of other keys", 2, {.sizes = {2, 2, 24, 41, 16, false, false, true}});
  expect("causal of other keys", 0, {.sizes = {2, 2, 24, 40, 16, true}});
  expect("no samples", 0, {.sizes = {0, 2, 24, 24, 16}});
  expect("a width that the library lacks", 0, {.sizes = {2, 2, 24, 24, 12}});
  expect("queries between two aligned places", 0, {.shift = 4});
  expect("backward that adds", 1, {.sizes = {2, 2, 24, 24, 16, false, false, false, true}});
  expect("backward of one query", 1, {.sizes = {2, 2, 1, 40, 16}});
  expect("backward of one query and key", 1, {.sizes = {2, 2, 1, 1, 16, true}});
  expect("backward without the output", 1, {.gives_out = false});
  expect("backward of a block of keys", 1, {.gives_dots = true});
  expect("backward without the keys' gradient", 1, {.wants_keys = false});
}

}  // namespace
}  // namespace lockstep
