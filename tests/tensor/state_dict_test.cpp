#include <lockstep/tensor/state_dict.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/copy_part.hpp>

namespace lockstep {
namespace {

StateDict two_tensors() {
  StateDict state;
  state.insert("fc.weight", Tensor::full({2, 3}, 1));
  state.insert("fc.bias", Tensor::full({2}, 2));
  return state;
}

TEST(StateDict, KeepsTheOrderOfInsertion) {
  StateDict state = two_tensors();
  state.insert("a", Tensor::zeros({1}));
  std::string names;
  for (const auto& entry : state) names += entry.name + " ";
  EXPECT_EQ(names, "fc.weight fc.bias a ");
  EXPECT_EQ(state.size(), 3U);
  EXPECT_EQ(state.bytes(), (6U + 2 + 1) * 4);
}

TEST(StateDict, TensorsAreHandles) {
  const StateDict state = two_tensors();
  state.at("fc.bias").fill(9);
  EXPECT_EQ(state.find("fc.bias")->tensor.to_vector<float>(), std::vector<float>(2, 9.0F));
}

TEST(StateDict, DuplicateAndMissingNamesAreErrors) {
  StateDict state = two_tensors();
  EXPECT_THROW(state.insert("fc.bias", Tensor::zeros({2})), Error);
  EXPECT_EQ(state.find("fc"), nullptr);
  try {
    static_cast<void>(state.at("fc.wieght"));
    FAIL() << "a missing name was found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fc.weight"), std::string::npos) << error.what();
  }
}

TEST(StateDict, InsertAllPutsAPrefixBeforeEveryName) {
  StateDict state;
  state.insert_all("model/", two_tensors());
  EXPECT_NE(state.find("model/fc.weight"), nullptr);
}

TEST(CopyState, CopiesByNameWhateverTheOrder) {
  const StateDict target = two_tensors();
  StateDict source;
  source.insert("fc.bias", Tensor::full({2}, 5));
  source.insert("fc.weight", Tensor::full({2, 3}, 6));
  copy_state(source, target);
  EXPECT_EQ(target.at("fc.bias").to_vector<float>(), std::vector<float>(2, 5.0F));
  EXPECT_EQ(target.at("fc.weight").to_vector<float>(), std::vector<float>(6, 6.0F));
}

TEST(CopyState, ListsEverythingThatDoesNotFitAndCopiesNothing) {
  const StateDict target = two_tensors();
  StateDict source;
  source.insert("fc.weight", Tensor::full({3, 2}, 6));
  source.insert("extra", Tensor::zeros({1}));
  try {
    copy_state(source, target);
    FAIL() << "a state that does not fit was copied";
  } catch (const Error& error) {
    for (const char* part : {"fc.bias", "[3, 2]", "[2, 3]", "extra"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(target.at("fc.weight").to_vector<float>(), std::vector<float>(6, 1.0F));
}

TEST(CopyState, OfManyThatDoNotFitNamesTheFirstAndCountsTheRest) {
  StateDict target, source;
  for (int i = 0; i < 20; ++i) target.insert("w" + std::to_string(i), Tensor::zeros({1}));
  source.insert("extra", Tensor::zeros({1}));
  try {
    copy_state(source, target);
    FAIL() << "a state that does not fit was copied";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "the state does not fit the model: w0 is missing; w1 is missing; w2 is missing; w3 "
        "is missing; w4 is missing; and 16 more");
  }
}

std::vector<std::int32_t> copied_part(const Placement& placement, const Shape& shape) {
  const Tensor whole = Tensor::from({0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}, {4, 3});
  const Tensor part = Tensor::full(shape, -1, DType::i32);
  copy_part(whole, placement, part);
  return part.to_vector<std::int32_t>();
}

TEST(CopyPart, OfRowsColumnsPartsAndRunsFollowsThePlacement) {
  using Values = std::vector<std::int32_t>;
  const Shape all{4, 3};
  EXPECT_EQ(copied_part(Placement::slab(all, {1, 0}), {2, 3}), (Values{10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(copied_part(Placement::slab(all, {0, 1}), {4, 2}),
            (Values{1, 2, 11, 12, 21, 22, 31, 32}));
  EXPECT_EQ(copied_part(Placement::slab(all, {2, 1}), {1, 1}), Values{21});
  EXPECT_EQ(copied_part({true, all, {1, 0}, 2}, {2, 3}), (Values{10, 11, 12, 30, 31, 32}));
  EXPECT_EQ(copied_part(Placement::flat_run(all, 2), {4}), (Values{2, 10, 11, 12}));
  EXPECT_EQ(copied_part(Placement::slab(all, {4, 0}), {0, 3}), Values{});
  EXPECT_EQ(copied_part({}, all).size(), 12U);
}

TEST(CopyPart, RefusesAPartThatIsNotWithinTheWhole) {
  EXPECT_THROW(copied_part(Placement::slab({4, 3}, {3, 0}), {2, 3}), ShapeError);
  EXPECT_THROW(copied_part(Placement::slab({4, 3}, {-1, 0}), {2, 3}), ShapeError);
  EXPECT_THROW(copied_part(Placement::slab({5, 3}, {0, 0}), {2, 3}), ShapeError);
  EXPECT_THROW(copied_part(Placement::slab({4, 3}, {0, 0}), {2}), ShapeError);
}

}  // namespace
}  // namespace lockstep
