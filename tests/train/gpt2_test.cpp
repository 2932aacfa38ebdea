// GPT-2's weights in Hugging Face's form, and PyTorch's logits for them (gpt2/make.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/weights/hugging_face.hpp>
#include <lockstep/checkpoint/weights/safetensors.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/train/run/init_from.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

fs::path fixture(const std::string& name) {
  const char* sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  return fs::path(sources ? sources : ".") / "tests/train/gpt2" / name;
}

TEST(HuggingFaceGpt2, GivesTheLogitsOfPyTorch) {
  const StateDict reference = read_safetensors(fixture("reference.safetensors")).tensors;
  const auto expected = reference.at("logits").to_vector<float>();
  for (const char* file : {"model.safetensors", "hub.safetensors"}) {
    const auto model = std::make_unique<nn::Gpt>(
        nn::GptOptions{.vocabulary = 50, .context = 16, .width = 24, .depth = 2, .heads = 3});
    const auto taken = train::take_weights(read_weights(fixture(file)).model, model->state_dict());
    EXPECT_EQ(taken.in_words(), "took 28 of 28 tensors") << file;
    const auto found = model->forward(Variable(reference.at("tokens"))).data().to_vector<float>();
    ASSERT_EQ(found.size(), expected.size());
    float largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      largest = std::max(largest, std::abs(found[i] - expected[i]));
    EXPECT_LE(largest, 1e-5F) << file;
  }
}

TEST(HuggingFaceGpt2, ThereAndBackIsTheSameFile) {
  const StateDict saved = read_safetensors(fixture("model.safetensors")).tensors;
  EXPECT_TRUE(is_hugging_face_gpt2(saved));
  const StateDict ours = from_hugging_face_gpt2(saved);
  EXPECT_FALSE(is_hugging_face_gpt2(ours)) << "not to be turned a second time";
  const StateDict back = to_hugging_face_gpt2(ours);
  ASSERT_EQ(back.size(), saved.size());
  for (const auto& [name, tensor, placement] : saved) {
    EXPECT_EQ(back.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(back.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
  }
}

TEST(HuggingFaceGpt2, RefusesAHeadOfItsOwnAndOtherModels) {
  const StateDict saved = read_safetensors(fixture("hub.safetensors")).tensors;
  StateDict untied;
  for (const auto& entry : saved)
    untied.insert(entry.name,
                  entry.name == "lm_head.weight" ? Tensor::zeros({50, 24}) : entry.tensor);
  EXPECT_NE(test::message_of<CheckpointError>([&] {
              static_cast<void>(from_hugging_face_gpt2(untied));
            }).find("head of Lockstep's gpt is tied"),
            std::string::npos);
  StateDict other;
  other.insert("fc1.weight", Tensor::zeros({2, 2}));
  EXPECT_FALSE(is_hugging_face_gpt2(other));
  EXPECT_THROW(static_cast<void>(to_hugging_face_gpt2(other)), InputError);
}

}  // namespace
}  // namespace lockstep
