// A GPT and a transformer that ranks share out: the undivided model's numbers.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/gpt_sampler.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "undivided.hpp"

namespace lockstep {
namespace {

using test::Divided;
using test::message_of;
using test::wave;

constexpr std::int64_t vocabulary = 13, length = 12;

class TensorParallelGpt : public testing::TestWithParam<int> {};

Tensor tokens_of(std::int64_t rows, int step) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(rows * length));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int64_t>(i * i + 5 * i + static_cast<std::size_t>(step)) % vocabulary;
  return Tensor::from(tokens, {rows, length}).to(test::asked_for_device());
}

nn::GptOptions options_of(double dropout = 0.0, bool recompute = false) {
  return {.vocabulary = vocabulary,
          .context = 16,
          .width = 24,
          .depth = 2,
          .heads = 12,
          .dropout = dropout,
          .recompute = recompute};
}

Divided gpt_of(const nn::GptOptions& options, bool sequence, const LossOptions& loss = {}) {
  return {[=] { return std::make_shared<nn::Gpt>(options); },
          gpt_plan(options, {.sequence = sequence}),
          [=](nn::Module& model, int step) {
            return dynamic_cast<nn::Gpt&>(model).loss(Variable(tokens_of(3, step)),
                                                      tokens_of(3, step + 1), loss);
          }};
}

TEST_P(TensorParallelGpt, TrainsAsTheUndividedModel) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(group, gpt_of(options_of(), false));
  });
}

TEST_P(TensorParallelGpt, CutAlongTheSequenceTrainsAsTheUndividedModel) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(group, gpt_of(options_of(), true));
  });
}

TEST_P(TensorParallelGpt, DrawsTheDropoutMasksOfTheUndividedModel) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool sequence : {false, true})
      test::expect_as_undivided(group, gpt_of(options_of(0.3), sequence));
  });
}

TEST_P(TensorParallelGpt, RecomputesBlocksWithTheSameNumbers) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool sequence : {false, true})
      test::expect_as_undivided(group, gpt_of(options_of(0.3, true), sequence));
  });
}

TEST_P(TensorParallelGpt, DealsOutHeadsThatRanksDoNotDivide) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    nn::GptOptions options = options_of();
    options.width = 20;
    options.heads = 5;
    test::expect_as_undivided(group, gpt_of(options, false));
  });
}

TEST_P(TensorParallelGpt, ItsLossTakesAllOptions) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Tensor weights = wave({vocabulary}, 1.0);
    weights += 2.0;
    for (const LossOptions& options :
         {LossOptions{.ignore_index = 3}, LossOptions{.label_smoothing = 0.2},
          LossOptions{.class_weight = weights},
          LossOptions{.reduction = Reduction::sum,
          .class_weight = weights,
          .ignore_index = 5,
          .label_smoothing = 0.1}}) {
      test::expect_as_undivided(group, gpt_of(options_of(), false, options), 1);
    }
  });
}

TEST_P(TensorParallelGpt, GivesWholeLogits) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool sequence : {false, true}) {
      Divided divided = gpt_of(options_of(), sequence);
      divided.loss = [](nn::Module& model, int step) {
        const Variable logits = model(Variable(tokens_of(3, step)));
        EXPECT_EQ(logits.shape(), (Shape{3, length, vocabulary}));
        return sum(logits * Variable(wave(logits.shape(), 0.2)));
      };
      test::expect_as_undivided(group, divided, 2);
    }
  });
}

TEST_P(TensorParallelGpt, ClipsByTheUndividedModelsNorm) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool sequence : {false, true}) {
      Divided divided = gpt_of(options_of(), sequence);
      double expected = 0.0;
      divided.before_step = [&](nn::Module& model, const GroupPtr& ranks) {
        if (!ranks) {
          expected = optim::clip_grad_norm(model.named_parameters(), 0.05);
          EXPECT_GT(expected, 0.05);
          return;
        }
        EXPECT_NEAR(tensor_parallel_clip_grad_norm(model, ranks, 0.05), expected, 1e-12);
        EXPECT_NEAR(TensorParallelGradNorm(model, ranks).norm(), 0.05, 1e-6);
      };
      test::expect_as_undivided(group, divided, 2);
    }
  });
}

TEST_P(TensorParallelGpt, AccumulatesGradients) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    Divided divided = gpt_of(options_of(), true);
    const auto loss = divided.loss;
    divided.loss = [=](nn::Module& model, int step) {
      (loss(model, step + 10) * 0.5).backward();
      return loss(model, step) * 0.5;
    };
    test::expect_as_undivided(group, divided, 2);
  });
}

TEST_P(TensorParallelGpt, RefusesSamplingAndSizesThatDoNotDivide) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const std::string ranks = std::to_string(group->size());
    nn::Gpt model(options_of());
    parallelize_gpt(model, group, {.sequence = true});
    EXPECT_EQ(message_of<InputError>([&] { const nn::GptCache cache(model); }),
              "a gpt whose blocks are divided over ranks does not sample tokens: save a checkpoint "
              "and sample from a model that is whole");
    if (group->size() == 1) return;
    const Variable seven(tokens_of(1, 0).reshape({length}).slice(0, 7).reshape({1, 7}));
    EXPECT_EQ(message_of<ShapeError>([&] { static_cast<void>(model(seven)); }),
              "the sequence of a tensor-parallel module: the " + ranks +
                  " ranks must divide the extent of 7 that they share out");
    nn::GptOptions one_head = options_of();
    one_head.heads = 1;
    nn::Gpt other(one_head);
    EXPECT_EQ(message_of<InputError>([&] { parallelize_gpt(other, group); }),
              "'h.0.attn.c_attn' has 1 units of outputs, fewer than the " + ranks +
                  " ranks that share them out. Use a group of at most 1 ranks.");
  });
}

TEST_P(TensorParallelGpt, ATransformerTrainsAsTheUndividedOne) {
  const nn::TransformerOptions options{
      .width = 24, .depth = 2, .heads = 12, .vocabulary = vocabulary, .encoder_dropout = 0.2};
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const bool sequence : {false, true}) {
      test::expect_as_undivided(
          group, {[&] { return nn::transformer({length}, 4, options, nn::Head::linear); },
                  transformer_plan(options, {.sequence = sequence}),
                  [](nn::Module& model, int step) {
                    const Tensor target = test::make_batch(3, 0.0).target;
                    return cross_entropy(model(Variable(tokens_of(3, step))), target);
                  }});
    }
  });
}

/// Attention with fewer heads of keys and values than of queries (Ainslie et al. 2023,
/// arXiv:2305.13245), for any number of heads that weights have rows for.
struct GroupedAttention : nn::Module {
  static constexpr std::int64_t width = 2;

  GroupedAttention(std::int64_t heads, std::int64_t key_heads)
      : q(register_module("q", std::make_shared<nn::Linear>(6, heads * width))),
        k(register_module("k", std::make_shared<nn::Linear>(6, key_heads * width))),
        v(register_module("v", std::make_shared<nn::Linear>(6, key_heads * width, false))),
        o(register_module("o", std::make_shared<nn::Linear>(heads * width, 4))) {}

  Variable forward(const Variable& x) override {
    const Variable queries = (*q)(x);
    const std::int64_t heads = queries.shape()[-1] / width;
    const auto repeated = [&](const Variable& y) {
      const std::int64_t key_heads = y.shape()[-1] / width;
      std::vector<Variable> all;
      for (std::int64_t h = 0; h < heads; ++h)
        all.push_back(narrow(y, 2, h * key_heads / heads * width, width));
      return concat(all, 2);
    };
    const Variable y = multi_head_attention(queries, repeated((*k)(x)), repeated((*v)(x)), heads);
    return mean((*o)(y), {1});
  }
  std::shared_ptr<nn::Linear> q, k, v, o;
};

TEST_P(TensorParallelGpt, FewerKeyHeadsThanRanksAreHeldBySeveral) {
  const auto plan = [](std::int64_t heads, std::int64_t key_heads) {
    const auto keys =
        std::make_shared<ColwiseParallel>(ColwiseOptions{.units = key_heads, .replicate = true});
    return ParallelPlan{{"q", std::make_shared<ColwiseParallel>(ColwiseOptions{.units = heads})},
                        {"k", keys},
                        {"v", keys},
                        {"o", std::make_shared<RowwiseParallel>(RowwiseOptions{.units = heads})}};
  };
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const std::int64_t key_heads : {1, 2}) {
      if (key_heads == 2 && group->size() % 2 != 0) continue;
      double norm = 0.0;
      test::expect_as_undivided(
          group,
          {[=] { return std::make_shared<GroupedAttention>(12, key_heads); }, plan(12, key_heads),
           [](nn::Module& model, int step) {
             const Variable x(wave({3, 5, 6}, 0.2 + step));
             return cross_entropy(model(x), test::make_batch(3, 0.0).target);
           },
           [&](nn::Module& model, const GroupPtr& ranks) {
             if (!ranks) norm = optim::grad_norm(model.named_parameters());
             if (!ranks) return;
             EXPECT_NEAR(TensorParallelGradNorm(model, ranks).norm(), norm, 1e-12);
           }});
    }
    if (group->size() != 3) return;
    const auto model = std::make_shared<GroupedAttention>(12, 2);
    EXPECT_EQ(
        message_of<InputError>([&] { parallelize_module(*model, group, plan(12, 2)); }),
        "'k' has 2 units of outputs, fewer than the 3 ranks that share them out, and no divisor "
        "of these. Use a group of at most 2 ranks.");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelGpt, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
