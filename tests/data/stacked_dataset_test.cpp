#include <lockstep/data/stacked_dataset.hpp>

#include <gtest/gtest.h>
#include <data/hdf5_files.hpp>
#include <data/idx_files.hpp>

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/subset.hpp>
#include <lockstep/data/tensor_dataset.hpp>
#include <support/process.hpp>

namespace lockstep {
namespace {

using test::input_error;
using test::says;

const Normalisation as_it_is{{0.0}, {1.0}};

/// Sample i has the inputs [i, i + 0.5], then the token 100 + i.
std::shared_ptr<const Dataset> numbers_and_tokens(std::int64_t n) {
  std::vector<float> numbers, targets;
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(i);
    numbers.insert(numbers.end(), {x, x + 0.5F});
    targets.push_back(-x);
    tokens.push_back(100 + i);
  }
  const auto first = std::make_shared<const TensorDataset>(
      Tensor::from(numbers, {n, 2}), Tensor::from(targets, {n}), 0, as_it_is, "numbers");
  const auto second = std::make_shared<const TensorDataset>(Tensor::from(tokens, {n, 1}),
                                                            no_targets(n), 0, "tokens");
  return std::make_shared<const StackedDataset>(
      first, std::vector<std::shared_ptr<const Dataset>>{second});
}

TEST(StackedDataset, GivesEachSampleItsInputsAndOneTarget) {
  const auto data = numbers_and_tokens(5);
  Batch batch(*data, 3);
  data->load(std::vector<std::int64_t>{4, 1}, batch);
  EXPECT_EQ(batch.inputs(0).to_vector<float>(), (std::vector<float>{4, 4.5, 1, 1.5}));
  EXPECT_EQ(batch.inputs(1).shape(), Shape({2, 1}));
  EXPECT_EQ(batch.inputs(1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{104, 101}));
  EXPECT_EQ(batch.targets().to_vector<float>(), (std::vector<float>{-4, -1}));
  EXPECT_THROW(static_cast<void>(batch.inputs(2)), std::out_of_range);

  const Batch part = batch.slice(1, 2);
  EXPECT_EQ(part.inputs(1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{101}));
  const Batch doubles = batch.to(DType::f64);
  EXPECT_EQ(doubles.inputs(0).dtype(), DType::f64);
  EXPECT_EQ(doubles.inputs(1).dtype(), DType::i64) << "integers stay";
  batch.reset({});
  EXPECT_EQ(batch.inputs(1).shape(), Shape({0, 1})) << "a rank without samples";
  EXPECT_EQ(doubles.inputs(1).size(0), 2) << "to() makes a batch of its own";
}

TEST(StackedDataset, GoesThroughSubsetsAndLoaders) {
  const auto data = std::make_shared<const Subset>(numbers_and_tokens(20),
                                                   std::vector<std::int64_t>{3, 5, 7, 9, 11});
  const BatchPlan plan(data->size(), 2, 1);
  Loader loader(data, std::make_unique<TrainBatches>(plan, 0, 7));
  std::int64_t seen = 0;
  for (loader.start_epoch(0); loader.has_next();) {
    const Batch& batch = loader.next();
    const auto numbers = batch.inputs().to_vector<float>();
    const auto tokens = batch.inputs(1).to_vector<std::int64_t>();
    ASSERT_EQ(std::ssize(tokens), batch.size());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(static_cast<float>(tokens[i]), 100 + numbers[2 * i]);
    seen += batch.size();
  }
  EXPECT_EQ(seen, 5);
}

TEST(StackedDataset, RefusesDataSetsThatDoNotMatch) {
  const auto five = numbers_and_tokens(5);
  const auto tokens = [](std::int64_t n) {
    return std::make_shared<const TensorDataset>(Tensor::zeros({n, 1}, DType::i64), no_targets(n),
                                                 0, "tokens");
  };
  EXPECT_TRUE(says(input_error([&] { StackedDataset(tokens(5), {tokens(4)}); }),
                   "5 samples, but 4 in another"));
  EXPECT_THROW(StackedDataset(tokens(5), {}), InputError);
  EXPECT_THROW(StackedDataset(five, {tokens(5)}), InputError);
}

class StackedFiles : public testing::Test {
 protected:
  StackedFiles() {
    for (const auto& [group, n] : {std::pair("train/", 30), std::pair("test/", 8)}) {
      std::vector<float> fields(static_cast<std::size_t>(n * 4)), values;
      std::iota(fields.begin(), fields.end(), 0.0F);
      std::vector<std::int32_t> kinds;
      for (int i = 0; i < n; ++i) {
        values.push_back(static_cast<float>(i));
        kinds.push_back(i % 3);
      }
      write(group + std::string("features"), {n, 2},
            std::vector<float>(fields.begin(), fields.begin() + 2 * n));
      write(group + std::string("targets"), {n, 1}, values);
      write(group + std::string("field"), {n, 2, 2}, fields);
      write(group + std::string("kind"), {n}, kinds);
    }
    options_.kind = Hdf5Options();
    options_.path = {file_};
    options_.files().other_features = {"field", "kind"};
  }

  template <class T>
  void write(const std::string& name, const std::vector<std::int64_t>& extents,
             const std::vector<T>& values) {
    test::write_hdf5(file_, name, extents, values);
  }

  test::ScratchFolder scratch_;
  std::string file_ = scratch_.file("data.h5");
  DataOptions options_;
};

TEST_F(StackedFiles, AreReadBesideTheFeaturesInMemoryAndStreamed) {
  for (const bool stream : {false, true}) {
    options_.files().stream = stream;
    const Datasets sets = make_datasets(options_, TargetKind::values);
    Batch batch(*sets.train, 2);
    sets.train->load(std::vector<std::int64_t>{29, 1}, batch);
    EXPECT_EQ(batch.inputs(1).shape(), Shape({2, 1, 2, 2})) << "as data.train_features are";
    EXPECT_EQ(batch.inputs(1).to_vector<float>(),
              (std::vector<float>{116, 117, 118, 119, 4, 5, 6, 7}))
        << "not normalised";
    EXPECT_EQ(batch.inputs(2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(sets.test->others().size(), 2U);
  }
}

TEST_F(StackedFiles, OfOtherSizesOrNamesAreRefused) {
  write<float>("train/short", {29}, std::vector<float>(29));
  const auto refusal = [&](const char* name) {
    options_.files().other_features = {name};
    return input_error([&] { static_cast<void>(make_datasets(options_, TargetKind::values)); });
  };
  const std::string length = refusal("short");
  for (const char* part : {"30 samples", "29", "train/short", "data.other_features"})
    EXPECT_TRUE(says(length, part));
  EXPECT_TRUE(says(refusal("absent"), "train/absent"));
  write<float>("test/wide", {8, 3}, std::vector<float>(24));
  write<float>("train/wide", {30, 2}, std::vector<float>(60));
  const std::string width = refusal("wide");
  for (const char* part : {"other_features", "[2]", "[3]"}) EXPECT_TRUE(says(width, part));
}

}  // namespace
}  // namespace lockstep
