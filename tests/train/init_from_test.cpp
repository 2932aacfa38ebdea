// Weights of other programs become a model's.
#include <gtest/gtest.h>

#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/train/init_from.hpp>

namespace lockstep {
namespace {

StateDict one(DType dtype, double value) {
  StateDict state;
  state.insert("w", Tensor::full({2}, value, dtype));
  return state;
}

TEST(TakeWeights, RefusesWhatIsNotFiniteInTheModelsType) {
  const auto refusal = [](DType from, double value, DType to) {
    return test::message_of<CheckpointError>(
        [&] { static_cast<void>(train::take_weights(one(from, value), one(to, 0))); });
  };
  EXPECT_NE(refusal(DType::f64, 1e300, DType::f32)
                .find("w has elements that are not finite as f32, which the model has it in (the "
                      "file has it in f64)"),
            std::string::npos);
  EXPECT_NE(refusal(DType::f32, 1e6, DType::f16).find("not finite as f16"), std::string::npos);
  const StateDict model = one(DType::f32, 0);
  EXPECT_EQ(train::take_weights(one(DType::f64, 1e38), model).taken, 1);
  EXPECT_EQ(model.at("w").to_vector<float>(), (std::vector<float>{1e38F, 1e38F}));
}

}  // namespace
}  // namespace lockstep
