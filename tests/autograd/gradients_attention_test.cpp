// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/functional/in_projection.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

/// About a third of the keys hidden from each query, all of them from query 1.
Tensor some_mask(std::int64_t queries, std::int64_t keys) {
  const Tensor mask = Tensor::empty({queries, keys}, DType::boolean);
  for (std::int64_t t = 0; t < queries; ++t) {
    for (std::int64_t s = 0; s < keys; ++s) {
      mask.slice(t, t + 1).reshape({keys}).slice(s, s + 1).fill(t != 1 && (t + 2 * s) % 3 != 0);
    }
  }
  return mask;
}

void check(const Shape& q, const Shape& kv, const AttentionOptions& options) {
  SCOPED_TRACE(to_string(q) + " " + to_string(kv));
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return scaled_dot_product_attention(v[0], v[1], v[2], options);
      },
      {random_tensor(q, 1), random_tensor(kv, 2), random_tensor(kv, 3)});
}

TEST(AttentionGradient, AgreesWithCentralDifferences) {
  check({2, 2, 5, 3}, {2, 2, 5, 3}, {});
  check({1, 3, 4, 2}, {1, 3, 7, 2}, {});
  check({1, 1, 1, 1}, {1, 1, 17, 1}, {});
  AttentionOptions scaled;
  scaled.scale = -0.7;
  check({1, 2, 4, 3}, {1, 2, 5, 3}, scaled);
}

TEST(AttentionGradient, OfCausalOnesAgreesAlsoAcrossBlocksAndForUnseenKeys) {
  AttentionOptions causal;
  causal.causal = true;
  check({2, 1, 6, 3}, {2, 1, 6, 3}, causal);
  check({1, 1, 3, 2}, {1, 1, 5, 2}, causal);
  check({1, 1, 70, 2}, {1, 1, 68, 2}, causal);
}

TEST(AttentionGradient, OfMaskedOnesAgreesAlsoWhereAQuerySeesNothing) {
  AttentionOptions options;
  options.mask = some_mask(6, 5);
  check({2, 1, 6, 3}, {2, 1, 5, 3}, options);
  options.causal = true;
  check({2, 1, 6, 3}, {2, 1, 5, 3}, options);
}

TEST(AttentionGradient, OfFewerHeadsOfKeysIsTheSumOverTheirQueryHeads) {
  check({2, 6, 4, 3}, {2, 2, 5, 3}, {});
  AttentionOptions causal;
  causal.causal = true;
  check({1, 2, 66, 1}, {1, 1, 66, 1}, causal);
}

TEST(AttentionGradient, OfOneVariableInSeveralPlacesIsTheSum) {
  expect_gradients(
      [](const std::vector<Variable>& v) { return scaled_dot_product_attention(v[0], v[0], v[0]); },
      {random_tensor({2, 2, 5, 3}, 1)});
  expect_gradients(
      [](const std::vector<Variable>& v) { return scaled_dot_product_attention(v[0], v[1], v[1]); },
      {random_tensor({2, 2, 5, 3}, 1), random_tensor({2, 2, 4, 3}, 2)});
}

TEST(SelfAttentionGradient, AgreesWithCentralDifferences) {
  for (const bool causal : {false, true}) {
    AttentionOptions options;
    options.causal = causal;
    expect_gradients(
        [&](const std::vector<Variable>& v) { return self_attention(v[0], 2, options); },
        {random_tensor({2, 5, 12}, 1)});
  }
}

TEST(MultiHeadAttentionGradient, AgreesWithCentralDifferencesAlsoWithHiddenKeys) {
  AttentionOptions options;
  options.key_padding_mask = Tensor::zeros({2, 5}, DType::boolean);
  options.key_padding_mask.slice(1, 2).reshape({5}).slice(1, 3).fill(1);
  options.key_padding_mask.slice(0, 1).reshape({5}).slice(4, 5).fill(1);
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        const auto [q, k, w] = in_projection(v[0], v[1], v[1], v[2], v[3]);
        return multi_head_attention(q, k, w, 3, options);
      },
      {random_tensor({2, 3, 6}, 1), random_tensor({2, 5, 6}, 2), random_tensor({18, 6}, 3),
       random_tensor({18}, 4)});
}

TEST(MultiHeadAttentionGradient, WithWeightsAgreesWithCentralDifferences) {
  AttentionOptions options;
  options.key_padding_mask = Tensor::zeros({2, 5}, DType::boolean);
  options.key_padding_mask.slice(1, 2).reshape({5}).slice(1, 3).fill(1);
  for (const bool average : {false, true}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          const auto y = multi_head_attention_with_weights(v[0], v[1], v[2], 3, options, average);
          return concat({reshape(y.output, {36}), reshape(y.weights, {average ? 30 : 90})});
        },
        {random_tensor({2, 3, 6}, 1), random_tensor({2, 5, 6}, 2), random_tensor({2, 5, 6}, 3)});
  }
}

// One output of three has a gradient, the others' thirds get zeros.
TEST(InProjectionGradient, AgreesWithCentralDifferencesAlsoIfOneOutputIsUsed) {
  expect_gradients(
      [](const std::vector<Variable>& v) { return in_projection(v[0], v[0], v[0], v[1], v[2])[1]; },
      {random_tensor({2, 3}, 1), random_tensor({9, 3}, 2), random_tensor({9}, 3)});
}

}  // namespace
}  // namespace lockstep::test
