// GPT-2 against PyTorch (tests/golden/gpt.h5), how it begins, and its cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>

namespace lockstep::nn {
namespace {

using test::GoldenFile;
using test::max_difference;

double relative_l2(const Tensor& y, const Tensor& reference) {
  const auto a = y.to(DType::f64).to_vector<double>(), b = reference.to_vector<double>();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

bool is_key_bias(const std::string& name) { return name.ends_with("c_attn.bias"); }

/// x without its middle third, which belongs to the keys.
Tensor without_keys(const Tensor& x) {
  const auto all = x.to(DType::f64).to_vector<double>();
  const auto third = std::ssize(all) / 3;
  std::vector<double> rest(all.begin(), all.begin() + third);
  rest.insert(rest.end(), all.begin() + 2 * third, all.end());
  return Tensor::from(rest, {2 * third});
}

class GptGolden : public testing::TestWithParam<DType> {
 protected:
  GptGolden() : guard_(GetParam()) {
    model_ = std::make_unique<Gpt>(GptOptions{.vocabulary = whole("vocab"),
                                              .context = whole("context"),
                                              .width = whole("width"),
                                              .depth = whole("layers"),
                                              .heads = whole("heads")});
    StateDict initial;
    for (const auto& name : file_.datasets("init"))
      initial.insert(name, file_.tensor("init/" + name).to(GetParam()));
    model_->load_state_dict(initial);
  }

  [[nodiscard]] std::int64_t whole(const char* name) const {
    return static_cast<std::int64_t>(file_.number("", name));
  }
  /// 16 m in f32.
  [[nodiscard]] double tolerance(const std::string& path) const {
    return GetParam() == DType::f32 ? file_.tolerance(path) : 1e-11;
  }
  /// Columns [first, first + context) of step's tokens.
  [[nodiscard]] Tensor tokens(std::int64_t step, std::int64_t first) const {
    const Tensor all = file_.tensor("tokens");
    const std::int64_t batch = all.size(1), length = all.size(2);
    const auto values = all.slice(step, step + 1).to_vector<std::int64_t>();
    std::vector<std::int64_t> part;
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto row = values.begin() + b * length + first;
      part.insert(part.end(), row, row + length - 1);
    }
    return Tensor::from(part, {batch, length - 1});
  }
  [[nodiscard]] Variable loss(std::int64_t step) const {
    return model_->loss(Variable(tokens(step, 0)), tokens(step, 1));
  }

  GoldenFile file_{"gpt.h5"};
  DTypeGuard guard_;
  std::unique_ptr<Gpt> model_;
};

TEST_P(GptGolden, HasPyTorchsNamesAndShapes) {
  std::vector<std::string> names;
  for (const auto& p : model_->named_parameters()) names.push_back(p.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, file_.datasets("init"));
}

TEST_P(GptGolden, FirstLogitsAndGradientsAgreeWithPyTorch) {
  EXPECT_LE(max_difference(model_->forward(Variable(tokens(0, 0))).data(),
                           file_.tensor("step0/logits_f64")),
            tolerance("step0/logits_f64"));
  loss(0).backward();
  for (const auto& [name, parameter] : model_->named_parameters()) {
    const std::string path = "step0/grad/" + name + "_f64";
    EXPECT_LE(max_difference(parameter.grad(), file_.tensor(path)), tolerance(path)) << name;
  }
  EXPECT_EQ(file_.unread("step0"), std::vector<std::string>{});
}

TEST_P(GptGolden, TrainingStepsOfAdamWAgreeWithPyTorch) {
  const auto betas = file_.numbers("", "betas");
  const double lr = file_.number("", "lr");
  optim::AdamW adam(model_->named_parameters(),
                    {.lr = lr,
                     .betas = {betas[0], betas[1]},
                     .eps = file_.number("", "eps"),
                     .weight_decay = file_.number("", "weight_decay")},
                    {{.pattern = "*.bias", .weight_decay = 0.0},
                     {.pattern = "*ln_?.weight", .weight_decay = 0.0}});
  const auto losses = file_.tensor("loss_f64").to_vector<double>();
  ASSERT_EQ(std::ssize(losses), whole("steps"));
  for (std::int64_t step = 0; step < whole("steps"); ++step) {
    adam.zero_grad();
    const Variable of_step = loss(step);
    EXPECT_NEAR(of_step.data().item(), losses[static_cast<std::size_t>(step)],
                tolerance("loss_f64"));
    of_step.backward();
    adam.step();
  }
  const bool single = GetParam() == DType::f32;
  for (const auto& [name, parameter] : model_->named_parameters()) {
    Tensor found = parameter.data(), expected = file_.tensor("final/" + name + "_f64");
    if (is_key_bias(name)) {  // its gradient is 0 up to rounding, which Adam makes steps of
      EXPECT_LE(max_difference(found, expected), 2 * lr * static_cast<double>(whole("steps")));
      found = without_keys(found);
      expected = without_keys(expected);
    }
    EXPECT_LE(max_difference(found, expected), single ? 2e-4 : 1e-9) << name;
    EXPECT_LE(relative_l2(found, expected), single ? 3e-5 : 1e-9) << name;
  }
  EXPECT_EQ(file_.unread("final"), std::vector<std::string>{});
}

// However the tokens are dealt out: one by one, all at once, and in parts.
TEST_P(GptGolden, CacheGivesTheLogitsOfTheWholeSequence) {
  const NoGradGuard no_grad;
  const Tensor row = tokens(0, 0).slice(0, 1);
  const std::int64_t length = row.size(1), vocabulary = whole("vocab");
  const Tensor all = model_->forward(Variable(row)).data().reshape({length, vocabulary});
  const Tensor flat = row.reshape({length});
  for (const std::int64_t part : {std::int64_t{1}, std::int64_t{7}, length}) {
    GptCache cache(*model_);
    for (std::int64_t begin = 0; begin < length; begin += part) {
      const std::int64_t end = std::min(begin + part, length);
      const Tensor next = model_->next_logits(flat.slice(begin, end), cache);
      EXPECT_LE(max_difference(next, all.slice(end - 1, end).reshape({vocabulary}).to(DType::f64)),
                GetParam() == DType::f32 ? 1e-5 : 1e-13);
    }
    EXPECT_EQ(cache.room(), 0);
    EXPECT_THROW(static_cast<void>(model_->next_logits(flat.slice(0, 1), cache)), ShapeError);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GptGolden, testing::Values(DType::f32, DType::f64),
                         [](const auto& of) { return std::string(name_of(of.param)); });

double deviation(const Tensor& x) {
  double squares = 0;
  for (const float value : x.to_vector<float>()) squares += static_cast<double>(value * value);
  return std::sqrt(squares / static_cast<double>(x.numel()));
}

TEST(Gpt, BeginsAsGpt2) {
  manual_seed(3);
  const Gpt model({.vocabulary = 97, .context = 64, .width = 96, .depth = 8, .heads = 3});
  for (const auto& [name, parameter] : model.named_parameters()) {
    const double expected = name.ends_with("bias")                       ? 0.0
                            : name.find("ln_") != std::string::npos      ? 1.0
                            : name.find(".c_proj.") != std::string::npos ? 0.02 / 4
                                                                         : 0.02;
    EXPECT_NEAR(deviation(parameter.data()), expected, 0.05 * expected) << name;
  }
}

TEST(Gpt, DropoutIsTheSameForASampleWhereverItIsComputed) {
  manual_seed(3);
  Gpt model({.vocabulary = 11, .context = 8, .width = 12, .depth = 2, .heads = 3, .dropout = 0.5});
  const Tensor tokens = Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const auto logits = [&](const Tensor& part, std::int64_t first) {
    const RandomContextGuard random({.seed = 5, .step = 9, .first_sample = first});
    return model.forward(Variable(part)).data();
  };
  const Tensor both = logits(tokens, 0), second = logits(tokens.slice(1, 2), 1);
  EXPECT_LE(max_difference(second, both.slice(1, 2).to(DType::f64)), 1e-6);
  model.eval();
  EXPECT_GT(max_difference(logits(tokens, 0), both.to(DType::f64)), 1e-3);
}

TEST(Gpt, RefusesInvalidArguments) {
  EXPECT_EQ(
      test::message_of<InputError>([] {
        const Gpt model({.vocabulary = 11, .context = 8, .width = 10, .depth = 2, .heads = 3});
      }),
      "model gpt: model.heads (3) must divide model.width (10)");
  Gpt model({.vocabulary = 11, .context = 8, .width = 12, .depth = 1, .heads = 3});
  EXPECT_THROW(static_cast<void>(model.forward(Variable(Tensor::zeros({1, 9}, DType::i64)))),
               ShapeError);
  EXPECT_THROW(static_cast<void>(model.forward(Variable(Tensor::zeros({1, 4})))), ShapeError);
  EXPECT_THROW(static_cast<void>(model.forward(Variable(Tensor::full({1, 4}, 11, DType::i64)))),
               InputError);
  GptCache cache(model);
  EXPECT_THROW(static_cast<void>(model.next_logits(Tensor::zeros({9}, DType::i64), cache)),
               ShapeError);
  EXPECT_TRUE(model.is_training()) << "as before the call";
  nn::Module& frozen = *model.children().back().second;
  frozen.eval();
  EXPECT_THROW(static_cast<void>(model.next_logits(Tensor::zeros({9}, DType::i64), cache)),
               ShapeError);
  EXPECT_FALSE(frozen.is_training());
  model.to(DType::bf16);
  EXPECT_THROW(GptCache{model}, InputError);
}

}  // namespace
}  // namespace lockstep::nn
