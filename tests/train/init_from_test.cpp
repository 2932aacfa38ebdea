// Weights of other programs become a model's.
#include <gtest/gtest.h>

#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/threads_group.hpp>
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

TEST(InitFrom, GivesEachRankItsPartsOfWholeWeights) {
  run_ranks_as_threads(3, [](ProcessGroup& group) {
    const int rank = group.rank();
    // Rows and columns of two tensors, a whole one, one that the file has in another shape, and one
    // that it has not.
    StateDict model;
    const auto part = [&](const char* name, const Shape& shape, const Placement& placement) {
      model.insert(name, Tensor::full(shape, -1.0 - rank), placement);
    };
    part("rows", {1, 2}, Placement::slab({3, 2}, {rank, 0}));
    part("columns", {2, 1}, Placement::slab({2, 3}, {0, rank}));
    part("whole", {2}, {});
    part("other", {1, 2}, Placement::slab({3, 2}, {rank, 0}));
    part("missing", {1, 2}, Placement::slab({3, 2}, {rank, 0}));
    StateDict weights;
    if (rank == 0) {
      weights.insert("rows", Tensor::from({0.0, 1.0, 10.0, 11.0, 20.0, 21.0}, {3, 2}));
      weights.insert("columns", Tensor::from({0.F, 1.F, 2.F, 10.F, 11.F, 12.F}, {2, 3}));
      weights.insert("whole", Tensor::from({7.F, 8.F}));
      weights.insert("other", Tensor::zeros({1, 2}));
    }
    const train::WeightsTaken taken = train::init_from(group, weights, model);
    if (rank == 0) {
      EXPECT_EQ(taken.in_words(),
                "took 3 of 5 tensors; of another shape, left as initialised: other f32[3, 2], not "
                "f32[1, 2]; missing, left as initialised: missing");
    }
    const auto values = [&](const char* name) { return model.at(name).to_vector<float>(); };
    const auto r = static_cast<float>(rank);
    EXPECT_EQ(values("rows"), (std::vector{10 * r, 10 * r + 1}));
    EXPECT_EQ(values("columns"), (std::vector{r, 10 + r}));
    EXPECT_EQ(values("whole"), (std::vector{7.F, 8.F}));
    EXPECT_EQ(values("other"), std::vector(2, -1 - r));
    EXPECT_EQ(values("missing"), std::vector(2, -1 - r));
  });
}

}  // namespace
}  // namespace lockstep
