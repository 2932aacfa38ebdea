#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/models/gpt_sampler.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {
namespace {

using Tokens = std::vector<std::int64_t>;

/// Weights large enough that some tokens are far likelier than others, and not the last one most
/// of all.
std::shared_ptr<Gpt> small_model(std::int64_t context = 8) {
  manual_seed(5);
  auto model = std::make_shared<Gpt>(
      GptOptions{.vocabulary = 7, .context = context, .width = 12, .depth = 2, .heads = 3});
  for (const auto& p : model->named_parameters())
    if (p.variable.shape().dims() == 2)
      p.variable.data().copy_from(normal(p.variable.shape(), p.name == "wte.weight" ? 0.3 : 0.6));
  return model;
}

Tokens sampled(const std::shared_ptr<Gpt>& model, const Tokens& text, int n,
               const SamplingOptions& options) {
  GptSampler sampler(model, text, options);
  Tokens tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(sampler.next());
  return tokens;
}

std::vector<double> logits_after(Gpt& model, const Tokens& text) {
  const auto n = std::ssize(text);
  return model.forward(Variable(Tensor::from(text, {1, n})))
      .data()
      .reshape({n, 7})
      .slice(n - 1, n)
      .to(DType::f64)
      .to_vector<double>();
}

TEST(GptSampler, AtTemperatureZeroTakesTheLikeliestToken) {
  const auto model = small_model();
  Tokens text{3, 1};
  const Tokens found = sampled(model, text, 6, {.temperature = 0});
  for (const std::int64_t token : found) {
    const auto logits = logits_after(*model, text);
    EXPECT_EQ(token, std::ranges::max_element(logits) - logits.begin());
    text.push_back(token);
  }
}

// When the context is full its second half is kept: from there on the text is that half's.
TEST(GptSampler, GoesOnWhenTheContextIsFull) {
  const auto model = small_model();
  const Tokens text{3, 1, 2, 5, 0, 6}, found = sampled(model, text, 9, {.temperature = 0});
  Tokens all = text;
  all.insert(all.end(), found.begin(), found.end());
  EXPECT_GT(std::set<std::int64_t>(found.begin(), found.end()).size(), 2U) << "or it shows nothing";
  // 8 tokens are seen before the ninth is chosen; then the last 4 of 9 are what is left.
  const Tokens kept(all.begin() + 5, all.begin() + 9);
  EXPECT_EQ(sampled(model, kept, 4, {.temperature = 0}), Tokens(all.begin() + 9, all.begin() + 13));
  EXPECT_EQ(sampled(small_model(1), {3}, 5, {.temperature = 0}).size(), 5U);
}

TEST(GptSampler, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  const auto model = small_model();
  const auto logits = logits_after(*model, {4});
  for (const double temperature : {1.0, 0.5}) {
    for (const std::int64_t top_k : {std::int64_t{0}, std::int64_t{3}}) {
      auto sorted = logits;
      std::ranges::sort(sorted, std::greater<>());
      const double least = top_k > 0 ? sorted[static_cast<std::size_t>(top_k - 1)] : -1e9;
      std::map<std::int64_t, double> expected;
      double total = 0;
      for (std::int64_t t = 0; t < 7; ++t) {
        const double logit = logits[static_cast<std::size_t>(t)];
        if (logit >= least) total += expected[t] = std::exp(logit / temperature);
      }
      constexpr int draws = 1000;
      std::map<std::int64_t, int> counts;
      for (int i = 0; i < draws; ++i) {
        ++counts[sampled(model, {4}, 1,
                         {.temperature = temperature,
                          .top_k = top_k,
                          .seed = 3,
                          .number = static_cast<std::uint64_t>(i)})
                     .front()];
      }
      for (const auto& [token, count] : counts) EXPECT_TRUE(expected.contains(token)) << token;
      for (const auto& [token, weight] : expected) {
        const double p = weight / total, deviation = std::sqrt(p * (1 - p) * draws);
        EXPECT_NEAR(counts[token], p * draws, 5 * deviation + 1) << token;
      }
    }
  }
}

// Hugging Face's order: temperature, then top_k, then top_p of what these leave.
TEST(GptSampler, DrawsFromTheNucleusOfTheLikeliestTokens) {
  const auto model = small_model();
  const auto logits = logits_after(*model, {4});
  for (const double temperature : {1.0, 0.5}) {
    for (const std::int64_t top_k : {7, 4}) {
      for (const double top_p : {1e-3, 0.5, 0.9, 1.0}) {
        std::vector<std::pair<double, std::int64_t>> order;
        for (std::int64_t t = 0; t < 7; ++t)
          order.emplace_back(std::exp(logits[static_cast<std::size_t>(t)] / temperature), t);
        std::ranges::sort(order, std::greater<>());
        order.resize(static_cast<std::size_t>(top_k));
        double total = 0, sum = 0;
        for (const auto& [weight, token] : order) total += weight;
        std::set<std::int64_t> expected, drawn;
        for (const auto& [weight, token] : order) {
          if (sum >= top_p * total) break;
          sum += weight;
          expected.insert(token);
        }
        for (int i = 0; i < 500; ++i) {
          drawn.insert(sampled(model, {4}, 1,
                               {.temperature = temperature,
                                .top_k = top_k,
                                .top_p = top_p,
                                .seed = 3,
                                .number = static_cast<std::uint64_t>(i)})
                           .front());
        }
        for (const auto token : drawn) EXPECT_TRUE(expected.contains(token)) << token;
        if (top_p < 1.0) {
          EXPECT_EQ(drawn, expected) << temperature << " " << top_k << " " << top_p;
        }
      }
    }
  }
}

TEST(GptSampler, IsAFunctionOfSeedAndNumber) {
  const auto model = small_model();
  const auto text = [&](std::uint64_t seed, std::uint64_t number) {
    return sampled(model, {1}, 20, {.seed = seed, .number = number});
  };
  EXPECT_EQ(text(1, 0), text(1, 0));
  EXPECT_NE(text(1, 0), text(2, 0));
  EXPECT_NE(text(1, 0), text(1, 1));
}

TEST(GptSampler, DrawsOnlyTokensOfTheTokenizer) {
  const auto model = small_model();
  for (const std::int64_t token : sampled(model, {1}, 50, {.vocabulary = 3})) EXPECT_LT(token, 3);
}

TEST(GptSampler, RefusesInvalidArguments) {
  const auto model = small_model();
  EXPECT_THROW(GptSampler(model, Tokens{}, {}), InputError);
  EXPECT_THROW(GptSampler(model, Tokens{7}, {}), InputError);
  EXPECT_THROW(GptSampler(model, Tokens{-1}, {}), InputError);
  EXPECT_THROW(GptSampler(model, Tokens{1}, {.temperature = -0.1}), InputError);
  EXPECT_THROW(GptSampler(model, Tokens{1}, {.temperature = std::nan("")}), InputError);
  EXPECT_THROW(GptSampler(model, Tokens{1}, {.top_k = -1}), InputError);
  for (const double top_p : {0.0, -0.1, 1.1, std::nan("")}) {
    EXPECT_THROW(GptSampler(model, Tokens{1}, {.top_p = top_p}), InputError);
  }
  EXPECT_THROW(GptSampler(model, Tokens{1}, {.vocabulary = 8}), InputError);
  model->parameters().back().data().fill(std::nan(""));
  EXPECT_THROW(static_cast<void>(sampled(model, {1}, 1, {})), Error);
}

}  // namespace
}  // namespace lockstep::nn
