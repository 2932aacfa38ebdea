// Promises of attention beyond its formula: visible keys, both layouts of heads, edge cases.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

Variable input(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  return Variable(random_tensor(shape, seed).to(dtype), true);
}

/// The heads of part 0, 1 or 2 of qkv[B,T,3E] as [B,H,T,D].
Variable part_of(const Tensor& qkv, std::int64_t heads, std::int64_t part) {
  const std::int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3 / heads;
  const auto all = qkv.to_vector<float>();
  std::vector<float> elements;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < length; ++t) {
        const auto first = all.begin() + ((b * length + t) * 3 + part) * heads * width + h * width;
        elements.insert(elements.end(), first, first + width);
      }
    }
  }
  return Variable(Tensor::from(elements, {batch, heads, length, width}), true);
}

/// [B,H,T,D] as [B,T,H D].
std::vector<float> merged(const Tensor& x) {
  const auto all = x.to_vector<float>();
  std::vector<float> elements;
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t t = 0; t < x.size(2); ++t) {
      for (std::int64_t h = 0; h < x.size(1); ++h) {
        const auto first = all.begin() + ((b * x.size(1) + h) * x.size(2) + t) * x.size(3);
        elements.insert(elements.end(), first, first + x.size(3));
      }
    }
  }
  return elements;
}

TEST(SelfAttention, IsAttentionOnTheThirdsOfItsInputBitForBit) {
  for (const bool causal : {false, true}) {
    AttentionOptions options;
    options.causal = causal;
    const Variable qkv = input({2, 70, 3 * 40}, 1);
    const Variable q = part_of(qkv.data(), 5, 0), k = part_of(qkv.data(), 5, 1);
    const Variable v = part_of(qkv.data(), 5, 2);
    const Variable y = self_attention(qkv, 5, options);
    const Variable expected = scaled_dot_product_attention(q, k, v, options);
    EXPECT_EQ(y.data().to_vector<float>(), merged(expected.data()));
  }
}

TEST(Attention, OfACausalRowDoesNotDependOnLaterRows) {
  AttentionOptions causal;
  causal.causal = true;
  const Variable q = input({1, 2, 100, 8}, 1), k = input({1, 2, 100, 8}, 2);
  const Variable v = input({1, 2, 100, 8}, 3);
  const auto first = [](const Tensor& t) {
    std::vector<float> rows;
    const auto all = t.to_vector<float>();
    for (const std::int64_t head : {0, 1}) {
      const auto begin = all.begin() + head * t.size(2) * 8;
      rows.insert(rows.end(), begin, begin + std::int64_t{30} * 8);
    }
    return Tensor::from(rows, {1, 2, 30, 8});
  };
  const Variable whole = scaled_dot_product_attention(q, k, v, causal);
  const Variable begin = scaled_dot_product_attention(
      Variable(first(q.data())), Variable(first(k.data())), Variable(first(v.data())), causal);
  const auto a = first(whole.data()).to_vector<float>(), b = begin.data().to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
}

TEST(Attention, OfAPositionThatSeesNothingIsZero) {
  AttentionOptions options;
  options.mask = Tensor::full({2, 3}, 1, DType::boolean);
  options.mask.slice(1, 2).fill(0);
  const Variable y = scaled_dot_product_attention(input({1, 1, 2, 4}, 1), input({1, 1, 3, 4}, 2),
                                                  input({1, 1, 3, 4}, 3), options);
  const auto rows = y.data().to_vector<float>();
  EXPECT_NE(rows[0], 0.0F);
  EXPECT_EQ((std::vector<float>(rows.begin() + 4, rows.end())), (std::vector<float>(4, 0.0F)));
}

TEST(Attention, OfHugeScoresStaysFinite) {
  const Variable q(Tensor::full({1, 1, 2, 4}, 1e4), true), k = input({1, 1, 3, 4}, 2);
  const Variable y = scaled_dot_product_attention(q, k, input({1, 1, 3, 4}, 3));
  for (const float value : y.data().to_vector<float>()) EXPECT_TRUE(std::isfinite(value)) << value;
}

TEST(Attention, PassesANaNOfAQueryToItsOwnRowOnly) {
  auto elements = random_tensor({1, 1, 3, 4}, 1).to(DType::f32).to_vector<float>();
  elements[5] = std::numeric_limits<float>::quiet_NaN();
  const Variable q(Tensor::from(elements, {1, 1, 3, 4}), true);
  const Variable y =
      scaled_dot_product_attention(q, input({1, 1, 20, 4}, 2), input({1, 1, 20, 4}, 3));
  const auto rows = y.data().to_vector<float>();
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(std::isnan(rows[i]), i / 4 == 1) << i;
}

TEST(Attention, WithoutQueriesKeysOrHeadsHasZeroGradients) {
  struct Case {
    Shape q, kv;
  };
  for (const auto& [q_shape, kv_shape] :
       {Case{{2, 3, 0, 4}, {2, 3, 5, 4}}, Case{{2, 3, 5, 4}, {2, 3, 0, 4}},
        Case{{0, 3, 5, 4}, {0, 3, 5, 4}}, Case{{2, 0, 5, 4}, {2, 0, 5, 4}},
        Case{{2, 3, 5, 0}, {2, 3, 5, 0}}}) {
    SCOPED_TRACE(to_string(q_shape) + " " + to_string(kv_shape));
    const Variable q = input(q_shape, 1), k = input(kv_shape, 2), v = input(kv_shape, 3);
    const Variable y = scaled_dot_product_attention(q, k, v);
    EXPECT_EQ(y.shape(), q_shape);
    for (const float value : y.data().to_vector<float>()) EXPECT_EQ(value, 0.0F);
    weighted_sum(y, Tensor::full(y.shape(), 1)).backward();
    for (const Variable& x : {q, k, v}) {
      ASSERT_TRUE(x.grad().defined());
      for (const float value : x.grad().to_vector<float>()) EXPECT_EQ(value, 0.0F);
    }
  }
}

template <class F>
std::string shape_error_of(const F& f) {
  try {
    static_cast<void>(f());
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no ShapeError";
}

TEST(Attention, NamesTheShapesThatDoNotFit) {
  const Variable q = input({2, 3, 5, 4}, 1);
  const auto attend = [&](const Shape& k, const Shape& v, const AttentionOptions& options) {
    return shape_error_of(
        [&] { return scaled_dot_product_attention(q, input(k, 2), input(v, 3), options); });
  };
  EXPECT_NE(attend({2, 3, 6, 5}, {2, 3, 6, 5}, {}).find("f32[2, 3, 6, 5]"), std::string::npos);
  EXPECT_NE(attend({2, 3, 6, 4}, {2, 3, 7, 4}, {}).find("f32[2, 3, 7, 4]"), std::string::npos);
  EXPECT_NE(attend({2, 6, 4}, {2, 6, 4}, {}).find("f32[2, 3, 5, 4]"), std::string::npos);
  for (const std::int64_t heads : {0, 2, 6}) {
    EXPECT_NE(attend({2, heads, 6, 4}, {2, heads, 6, 4}, {}).find("a divisor of H"),
              std::string::npos);
  }
  AttentionOptions options;
  options.mask = Tensor::full({5, 5}, 1, DType::boolean);
  const std::string message = attend({2, 3, 6, 4}, {2, 3, 6, 4}, options);
  EXPECT_NE(message.find("[5, 6]"), std::string::npos) << message;
  EXPECT_NE(message.find("bool[5, 5]"), std::string::npos) << message;
  const std::string heads = shape_error_of([] { return self_attention(input({2, 5, 24}, 1), 3); });
  EXPECT_NE(heads.find("f32[2, 5, 24]"), std::string::npos) << heads;
  EXPECT_NE(heads.find("3 heads"), std::string::npos) << heads;
}

}  // namespace
}  // namespace lockstep::test
