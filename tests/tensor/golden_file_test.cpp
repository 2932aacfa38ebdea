#include <support/golden_file.hpp>
#include <support/larger.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <gtest/gtest-spi.h>

#include <lockstep/base/error.hpp>

namespace lockstep::test {
namespace {

TEST(GoldenFile, ReadsEveryDatasetOfEveryFile) {
  std::size_t read = 0;
  for (const char* name : {"ops.h5", "optim.h5", "convnet.h5", "ddp.h5"}) {
    const GoldenFile file(name);
    const auto visit = [&](const auto& self, const std::string& group) -> void {
      const std::string prefix = group.empty() ? "" : group + "/";
      for (const auto& dataset : file.datasets(group)) {
        EXPECT_TRUE(file.has(prefix + dataset));
        EXPECT_TRUE(file.tensor(prefix + dataset).defined()) << prefix << dataset;
        if (file.has_attribute(prefix + dataset, "ref_max_abs")) {
          EXPECT_GE(file.tolerance(prefix + dataset), 0.0) << prefix << dataset;
        }
        ++read;
      }
      for (const auto& member : file.groups(group)) self(self, prefix + member);
    };
    visit(visit, "");
  }
  EXPECT_GT(read, 100U);
}

TEST(GoldenFile, AttributesComeAsNumbersListsAndText) {
  const GoldenFile ops("ops.h5");
  const auto groups = ops.groups("");
  const auto conv = std::ranges::find_if(
      groups, [&](const std::string& group) { return ops.text(group, "op") == "conv2d"; });
  ASSERT_NE(conv, groups.end());
  EXPECT_EQ(ops.numbers(*conv, "stride").size(), 2U);
  EXPECT_GE(ops.number(*conv, "groups"), 1.0);
  EXPECT_EQ(ops.number_or(*conv, "no_such_attribute", 3.5), 3.5);
  EXPECT_EQ(ops.tensor(*conv + "/x").dtype(), DType::f32);
  EXPECT_EQ(ops.tensor(*conv + "/out_f64").dtype(), DType::f64);
}

TEST(GoldenFile, ListsUnreadDatasets) {
  const GoldenFile ops("ops.h5");
  const auto group = ops.groups("").front();
  const auto names = ops.datasets(group);
  const auto all = ops.unread("").size();
  EXPECT_GT(all, 100U);
  ASSERT_EQ(ops.unread(group).size(), names.size());
  EXPECT_EQ(ops.unread(group).front(), group + "/" + names.front());
  for (const auto& name : names) static_cast<void>(ops.tensor(group + "/" + name));
  EXPECT_TRUE(ops.unread(group).empty());
  EXPECT_EQ(ops.unread("").size(), all - names.size());
}

// The reader of a group checks that nothing in it is left unread. A new group needs a reader or a
// place in the list of waiting ones.
TEST(GoldenFile, GroupsOfTheSharedFilesHaveReadersOrAreListedAsWaiting) {
  const auto expect = [](const char* file, std::vector<std::string> read,
                         const std::vector<std::string>& waiting) {
    read.insert(read.end(), waiting.begin(), waiting.end());
    std::ranges::sort(read);
    EXPECT_EQ(GoldenFile(file).groups(""), read);
  };
  // data/golden_test.cpp, parallel/ddp_golden_test.cpp
  expect("ddp.h5", {"partitioner", "sampler", "weighted_mean"},
         {"grad_accumulation", "grad_accumulation_unequal", "local_sgd", "power_sgd",
          "sync_batch_norm"});
  // train/golden_convnet_test.cpp; `long` is `main` over 100 steps
  expect("convnet.h5", {"init", "main", "step0"}, {"long"});
}

/// While alive, LOCKSTEP_GOLDEN_DIR is this, or unset if it is empty.
class GoldenFolder {
 public:
  explicit GoldenFolder(const std::string& path) {
    if (const char* before = std::getenv(variable)) before_ = before;
    set(path);
  }
  ~GoldenFolder() { set(before_); }
  GoldenFolder(const GoldenFolder&) = delete;
  GoldenFolder& operator=(const GoldenFolder&) = delete;

 private:
  static constexpr const char* variable = "LOCKSTEP_GOLDEN_DIR";
  static void set(const std::string& path) {
    path.empty() ? unsetenv(variable) : setenv(variable, path.c_str(), 1);
  }
  std::string before_;
};

TEST(GoldenFile, MissingFromAnOwnFolderSkipsTheTestAndIsNamed) {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter intercepted(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    const GoldenFolder folder("/no/such/folder");
    EXPECT_THROW(GoldenFile("ops.h5"), testing::AssertionException);
  }
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(results.GetTestPartResult(0).skipped());
  EXPECT_NE(std::string(results.GetTestPartResult(0).message()).find("/no/such/folder/ops.h5"),
            std::string::npos);
  const char* const sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  const GoldenFolder own((sources ? std::string(sources) + "/" : "") + "tests/golden/");
  EXPECT_NO_THROW(GoldenFile("ops.h5"));
  EXPECT_THROW(GoldenFile("no_such_file.h5"), Error)
      << "of the project's own nothing may be missing";
}

TEST(GoldenFile, NamesMissingEntries) {
  const GoldenFolder own("");
  EXPECT_THROW(GoldenFile("no_such_file.h5"), Error);
  const GoldenFile ops("ops.h5");
  EXPECT_FALSE(ops.has("nowhere/at/all"));
  EXPECT_THROW(static_cast<void>(ops.tensor("nowhere")), Error);
  EXPECT_THROW(static_cast<void>(ops.number("", "no_such_attribute")), Error);
}

TEST(Larger, KeepsNaN) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(larger(1, 2), 2);
  EXPECT_EQ(larger(2, 1), 2);
  EXPECT_TRUE(std::isnan(larger(nan, 1)));
  EXPECT_TRUE(std::isnan(larger(1, nan)));
}

TEST(MaxDifference, TreatsShapesAndNaNStrictly) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const auto of = [](std::vector<double> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return Tensor::from(values, {n});
  };
  EXPECT_EQ(max_difference(of({1, 2}), of({1, 2.5})), 0.5);
  EXPECT_EQ(max_difference(of({nan, infinite}), of({nan, infinite})), 0.0);
  EXPECT_EQ(max_difference(of({nan}), of({1})), infinite);
  EXPECT_EQ(max_difference(of({1}), of({nan})), infinite);
  EXPECT_EQ(max_difference(of({infinite}), of({-infinite})), infinite);
  EXPECT_EQ(max_difference(of({1, 2}), of({1})), infinite);
}

}  // namespace
}  // namespace lockstep::test
