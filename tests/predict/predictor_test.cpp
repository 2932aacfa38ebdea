#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/threads_group.hpp>

#include "networks.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Kind = ModelSignature::Output;
using Floats = std::vector<float>;

Floats predict(const Predictor& predictor, const Floats& input) {
  const std::int64_t n = std::ssize(input) / predictor.input_elements();
  Floats output(static_cast<std::size_t>(n * predictor.output_elements()));
  predictor.predict(input, output);
  return output;
}

/// The module's own output in evaluation mode, for unscaled inputs.
Floats forward(nn::Module& model, const Floats& input, const Shape& sample) {
  const NoGradGuard no_grad;
  model.eval();
  std::vector<std::int64_t> extents{std::ssize(input) / sample.numel()};
  extents.insert(extents.end(), sample.begin(), sample.end());
  const Tensor x = Tensor::from(input, Shape(std::span<const std::int64_t>(extents)));
  return model.forward(Variable(x)).data().to_vector<float>();
}

TEST(Predictor, GivesEachNetworksOutputInEvaluationMode) {
  for (const auto& [name, options, input] : test::zoo()) {
    nn::manual_seed(1);
    const auto model = nn::make_model(options, input, 5, nn::Head::linear);
    const Predictor predictor(model, test::signature_of(input, {5}));
    for (const std::int64_t n : {1, 3, 130}) {
      const auto raw = test::raw_inputs(n * input.numel());
      const auto got = predict(predictor, raw), want = forward(*model, raw, input);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_LE(std::abs(got[i] - want[i]), 1e-4F * (1 + std::abs(want[i]))) << name << " " << i;
    }
  }
}

TEST(Predictor, GivesProbabilitiesOfClasses) {
  for (const auto& [name, options, input] : test::zoo()) {
    nn::manual_seed(1);
    const auto model = nn::make_model(options, input, 5);
    const Predictor predictor(model, test::signature_of(input, {5}, Kind::log_probabilities));
    const auto raw = test::raw_inputs(7 * input.numel());
    const auto got = predict(predictor, raw), logs = forward(*model, raw, input);
    for (std::size_t s = 0; s < 7; ++s) {
      EXPECT_LE(std::abs(std::accumulate(&got[s * 5], &got[s * 5] + 5, 0.0F) - 1), 1e-5F) << name;
      for (std::size_t c = s * 5; c < s * 5 + 5; ++c)
        EXPECT_LE(std::abs(got[c] - std::exp(logs[c])), 1e-5F) << name;
    }
  }
}

TEST(Predictor, NormalisesInputsAndGivesOutputsInTheirUnits) {
  for (const std::vector<std::int64_t>& hidden : {std::vector<std::int64_t>{8}, {1200, 1000}}) {
    nn::manual_seed(1);
    const auto model =
        nn::make_model({.kind = nn::MlpOptions{.hidden = hidden}}, {2, 3}, 2, nn::Head::linear);
    ModelSignature signature = test::signature_of({2, 3}, {2});
    signature.input.divisor = 255;
    signature.input.mean = {0.5, 0.25};
    signature.input.std = {0.125, 2};
    signature.output.mean = {100, -3};
    signature.output.std = {10};
    const auto raw = test::raw_inputs(5 * 6);
    Floats scaled;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const bool first = i / 3 % 2 == 0;
      scaled.push_back((raw[i] / 255.0F - (first ? 0.5F : 0.25F)) / (first ? 0.125F : 2.0F));
    }
    const auto got = predict(Predictor(model, signature), raw);
    const auto plain = forward(*model, scaled, {2, 3});
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_LE(std::abs(got[i] - (plain[i] * 10 + (i % 2 == 0 ? 100 : -3))), 1e-4F);
  }
}

TEST(Predictor, GivesMeansAndStandardDeviationsInTheTargetsUnits) {
  for (const auto& [name, options, input] : test::zoo()) {
    nn::manual_seed(1);
    const auto model = nn::make_model(options, input, 6, nn::Head::linear);
    ModelSignature signature = test::signature_of(input, {3}, Kind::gaussian);
    signature.output.mean = {100, -3, 0};
    signature.output.std = {10, 2, 0.5};
    EXPECT_EQ(ModelSignature::parse(signature.to_text(), "test"), signature);
    const Predictor predictor(model, signature);
    ASSERT_EQ(predictor.output_elements(), 6);
    const auto raw = test::raw_inputs(5 * input.numel());
    const auto got = predict(predictor, raw), said = forward(*model, raw, input);
    for (std::size_t i = 0; i < said.size(); ++i) {
      const std::size_t k = i % 3;
      const double std = signature.output.std[k];
      const double want = i % 6 < 3 ? said[i] * std + signature.output.mean[k]
                                    : std * std::sqrt(std::log1p(std::exp(said[i])) + 1e-6);
      EXPECT_LE(std::abs(got[i] - want), 1e-4 * (1 + std::abs(want))) << name << " " << i;
    }
  }
}

/// A model with an embedding.
struct Lookup : nn::Module {
  std::shared_ptr<nn::Embedding> table =
      register_module("table", std::make_shared<nn::Embedding>(10, 4));
  std::shared_ptr<nn::Linear> fc = register_module("fc", std::make_shared<nn::Linear>(12, 2));
  Variable forward(const Variable& x) override {
    return fc->forward(flatten(table->forward(x), 1));
  }
};

TEST(Predictor, LooksIndicesUpAndRefusesNumbersInTheirPlace) {
  const auto model = std::make_shared<Lookup>();
  ModelSignature signature = test::signature_of({3}, {2});
  signature.input.dtype = DType::i64;
  const Predictor predictor(model, signature);
  const std::vector<std::int64_t> indices{1, 9, 0, 4, 4, 4};
  Floats output(4);
  predictor.predict(indices, output);
  EXPECT_EQ(output,
            model->forward(Variable(Tensor::from(indices, {2, 3}))).data().to_vector<float>());
  EXPECT_EQ(test::message_of<InputError>([&] { predictor.predict(Floats(6), output); }),
            "input are i64, not f32");
}

TEST(Predictor, RefusesOtherNumbersOfElementsAndModelsOfOtherShapes) {
  const auto model = nn::mlp({4}, 2, {3}, nn::Head::linear);
  const Predictor predictor(model, test::signature_of({4}, {2}));
  Floats output(4);
  EXPECT_EQ(
      test::message_of<InputError>([&] { predictor.predict(Floats(7), output); }),
      "7 elements of input and 4 of output are not the same number of samples of 4 and 2 each");
  EXPECT_THROW(predictor.predict(Floats(4), output), InputError);
  EXPECT_NO_THROW(predictor.predict(Floats(), std::span<float>()));
  EXPECT_THROW(Predictor(std::shared_ptr<nn::Module>(), test::signature_of({4}, {2})), Error);
  EXPECT_THROW(Predictor(model, test::signature_of({4}, {3})), InputError);
  EXPECT_THROW(Predictor(model, test::signature_of({2, 3}, {2, 2})), InputError);
  EXPECT_THROW(Predictor(model, test::signature_of({2, 4}, {2, 2})), InputError)
      << "its Flatten makes 8 of them";
}

TEST(Predictor, TakesLinearsThatWorkOnTheLastDimension) {
  nn::manual_seed(1);
  const auto model =
      std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
          std::make_shared<nn::Linear>(3, 16), std::make_shared<nn::ReLU>(),
          std::make_shared<nn::Linear>(16, 1)});
  const auto raw = test::raw_inputs(5 * 12);
  const Predictor predictor(model, test::signature_of({4, 3}, {4, 1}));
  EXPECT_EQ(predict(predictor, raw), forward(*model, raw, {4, 3}));
  EXPECT_THROW(Predictor(model, test::signature_of({4, 3}, {4, 2})), InputError);
  EXPECT_THROW(Predictor(model, test::signature_of({3, 4}, {4, 1})), InputError);
}

class FromFile : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "run/checkpoints"); }
  void TearDown() override { fs::remove_all(folder_); }

  void save(const std::string& name, const CheckpointContents& contents) const {
    run_ranks_as_threads(
        1, [&](ProcessGroup& group) { CheckpointWriter().save(group, folder_ / name, contents); });
  }

  fs::path folder_ = fs::temp_directory_path() / ("lockstep-predict-" + std::to_string(getpid()));
  const Floats raw_ = test::raw_inputs(12);
};

constexpr const char* deck = "[model]\nkind = \"mlp\"\nhidden = [8]\n";

TEST_F(FromFile, CheckpointAndRunFolderNeedNothingElse) {
  nn::manual_seed(3);
  const auto model = nn::mlp({4}, 2, {8}, nn::Head::linear);
  const ModelSignature signature = test::signature_of({4}, {2});
  CheckpointContents contents{
      .model = model->state_dict(), .train = {.step = 2}, .deck = deck, .signature = signature};
  save("run/checkpoints/step-00000002.h5", contents);
  const auto want = predict(Predictor(model, signature), raw_);
  for (const char* source : {"run", "run/checkpoints", "run/checkpoints/step-00000002.h5"}) {
    const Predictor predictor(folder_ / source);
    EXPECT_EQ(predict(predictor, raw_), want) << source;
    EXPECT_EQ(predictor.signature(), signature);
  }
}

TEST_F(FromFile, AModelOfOnesOwnIsGivenAndGetsItsWeights) {
  const auto trained = std::make_shared<Lookup>(), fresh = std::make_shared<Lookup>();
  ModelSignature signature = test::signature_of({3}, {2});
  signature.input.dtype = DType::i64;
  save("a.h5", {.model = trained->state_dict()});
  const Predictor predictor(folder_ / "a.h5", fresh, signature);
  Floats output(2), want(2);
  predictor.predict(std::vector<std::int64_t>{7, 8, 9}, output);
  Predictor(trained, signature).predict(std::vector<std::int64_t>{7, 8, 9}, want);
  EXPECT_EQ(output, want);
  EXPECT_TRUE(test::message_of<CheckpointError>([&] {
                Predictor(folder_ / "a.h5", fresh);
              }).find("has no description of its model") != std::string::npos);
}

TEST_F(FromFile, UnusableCheckpointsAreASentence) {
  const auto model = nn::mlp({4}, 2, {8}, nn::Head::linear);
  const auto message = [&](const std::string& file) {
    return test::message_of<CheckpointError>([&] { Predictor(folder_ / file); });
  };
  save("other.h5", {.model = model->state_dict(),
                    .deck = "[model]\nkind = \"mlp\"\nhidden = [9]\n",
                    .signature = test::signature_of({4}, {2})});
  EXPECT_NE(message("other.h5").find("does not fit"), std::string::npos);
  save("own.h5", {.model = model->state_dict(),
                  .deck = "[own]\nwidth = 3\n",
                  .signature = test::signature_of({4}, {2})});
  EXPECT_NE(message("own.h5").find("a model of its own"), std::string::npos) << message("own.h5");
  EXPECT_NE(message("run").find("no intact checkpoint"), std::string::npos);
  EXPECT_NE(message("none.h5").find("none.h5"), std::string::npos);
  const char* sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  ASSERT_NE(sources, nullptr);
  EXPECT_NE(message(std::string(sources) + "/tests/checkpoint/kept/format-2.h5").find("predates"),
            std::string::npos)
      << "written before there were signatures";
}

}  // namespace
}  // namespace lockstep
