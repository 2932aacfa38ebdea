// Weights of other programs become a model's.
#include <gtest/gtest.h>

#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/train/run/init_from.hpp>

namespace lockstep {
namespace {

StateDict one(DType dtype, double value) {
  StateDict state;
  state.insert("w", Tensor::full({2}, value, dtype));
  return state;
}

TEST(TakeWeights, RefusesElementsNotFiniteInTheModelsType) {
  const auto refusal = [](DType from, double value, DType to) {
    return test::message_of<CheckpointError>(
        [&] { static_cast<void>(train::take_weights(one(from, value), one(to, 0))); });
  };
  EXPECT_NE(refusal(DType::f64, 1e300, DType::f32)
                .find("w has elements that are not finite in f32, the model's dtype (the "
                      "file's is f64)"),
            std::string::npos);
  EXPECT_NE(refusal(DType::f32, 1e6, DType::f16).find("not finite in f16"), std::string::npos);
  const StateDict model = one(DType::f32, 0);
  EXPECT_EQ(train::take_weights(one(DType::f64, 1e38), model).taken, 1);
  EXPECT_EQ(model.at("w").to_vector<float>(), (std::vector<float>{1e38F, 1e38F}));
}

TEST(TakeWeights, GoIntoAModelOnADevice) {
  StateDict model;
  model.insert("w", Tensor::zeros({2}, DType::f32, {DeviceType::sim, 0}));
  EXPECT_EQ(train::take_weights(one(DType::f64, 2.5), model).taken, 1);
  EXPECT_EQ(model.at("w").to_vector<float>(), (std::vector<float>{2.5F, 2.5F}));
}

// A checkpoint may be forged, including its checksums.
TEST(TakeWeights, OfAnotherModelAreRecognisedByUnusedTensors) {
  StateDict model = one(DType::f32, 0), weights = one(DType::f32, 1);
  const Tensor rest = Tensor::zeros({1});
  EXPECT_FALSE(train::take_weights(weights, model).are_another_models());
  for (int i = 0; i < 1009; ++i) weights.insert("other." + std::to_string(i), rest);
  EXPECT_FALSE(train::take_weights(weights, model).are_another_models());
  weights.insert("other.1009", rest);
  EXPECT_TRUE(train::take_weights(weights, model).are_another_models());
  for (int i = 1010; i < 100'000; ++i) weights.insert("other." + std::to_string(i), rest);
  const train::WeightsTaken many = train::take_weights(weights, model);
  EXPECT_EQ(many.in_words(),
            "took 1 of 1 tensors; unused: other.0, other.1, other.2, other.3, other.4, "
            "other.5, other.6, other.7 and 99992 more");
  weights = StateDict();
  weights.insert("other", rest);
  EXPECT_TRUE(train::take_weights(weights, model).are_another_models());
}

}  // namespace
}  // namespace lockstep
