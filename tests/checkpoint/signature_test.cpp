#include <gtest/gtest.h>
#include <checkpoint/sample.hpp>
#include <support/message_of.hpp>

#include <lockstep/checkpoint/weights/weights.hpp>

namespace lockstep {
namespace {

ModelSignature signature() {
  return {.input = {"image", DType::f32, {3, 8, 8}, 255, {0.1, 0.2, 1.0 / 3}, {5e-324, 2, 1e300}},
          .output = {"class", DType::f32, {2}},
          .kind = ModelSignature::Output::log_probabilities,
          .class_names = {"cat", "\"dog\"\n"}};
}

TEST(Signature, TextReadBackGivesTheSameBits) {
  const ModelSignature indices{.input = {"words", DType::i64, {4}},
                               .output = {"score", DType::f32, {}}};
  ModelSignature several = signature();
  several.other_inputs = {{"mask", DType::f32, {8, 8}}, indices.input};
  for (const auto& one : {signature(), indices, several})
    EXPECT_EQ(ModelSignature::parse(one.to_text(), "text"), one) << one.to_text();
  EXPECT_EQ(signature().classes(), 2);
  EXPECT_EQ(indices.classes(), 0);
}

TEST(Signature, GoesAlongWithWeightsInEitherFormat) {
  const auto folder = test::scratch("signature");
  CheckpointContents contents{.signature = signature()};
  contents.model.insert("w", test::pattern({2, 3}));
  write_weights(folder / "a.h5", contents, WeightsFormat::h5);
  write_weights(folder / "a.safetensors", contents, WeightsFormat::safetensors);
  for (const char* file : {"a.h5", "a.safetensors"})
    EXPECT_EQ(read_weights(folder / file).signature, signature()) << file;
  contents.signature = {};
  write_weights(folder / "b.h5", contents, WeightsFormat::h5);
  EXPECT_FALSE(read_weights(folder / "b.h5").signature.is_known());
}

TEST(Signature, TextThatCannotBeIsRefusedInASentence) {
  const auto message = [](const std::string& text) {
    return test::message_of<CheckpointError>(
        [&] { static_cast<void>(ModelSignature::parse(text, "/signature")); });
  };
  EXPECT_NE(message("[input").find("/signature"), std::string::npos);
  EXPECT_NE(message("[input]\nshape = [3]\nmean = [1, 2]\nstd = [1, 1]").find("3 channels"),
            std::string::npos);
  EXPECT_NE(message("[input]\nshape = [3]\nmean = [1]").find("without a std"), std::string::npos);
  EXPECT_NE(message("[input]\nstd = [0]\nmean = [0]").find("out of range"), std::string::npos);
  EXPECT_NE(message("[input]\nshape = [1, 1, 1, 1, 1, 1, 1, 1]").find("7 at most"),
            std::string::npos);
  EXPECT_NE(message("[output]\nshape = [2]\nclass_names = [\"a\"]").find("1 class names"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
