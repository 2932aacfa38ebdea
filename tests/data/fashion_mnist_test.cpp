#include <gtest/gtest.h>
#include <data/idx_files.hpp>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include <lockstep/base/error.hpp>
#include <lockstep/data/fashion_mnist.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::input_error;
using test::says;

// Sets an environment variable for the length of a test.
class Environment {
 public:
  Environment(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    set(value);
  }
  ~Environment() { set(before_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(FashionMnist, BothSplitsAreReadFromPlainAndGzipFiles) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 12, 5);
  const auto train = load_fashion_mnist(folder.path(), Split::train);
  const auto test = load_fashion_mnist(folder.path(), Split::test);
  EXPECT_EQ(train->size(), 12);
  EXPECT_EQ(test->size(), 5);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(test->sample_shape(), Shape({1, 4, 3}));
}

TEST(FashionMnist, LimitTakesTheFirstSamples) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 12, 5);
  EXPECT_EQ(load_fashion_mnist(folder.path(), Split::train, {}, 7)->size(), 7);
  EXPECT_EQ(load_fashion_mnist(folder.path(), Split::train, {}, 70)->size(), 12);
}

TEST(FashionMnist, MissingFileIsNamedWithTheRemedy) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 12, 5);
  fs::remove(folder.path() / "t10k-labels-idx1-ubyte.gz");
  const auto message = input_error([&] { return find_fashion_mnist(folder.path().string()); });
  EXPECT_TRUE(says(message, (folder.path() / "t10k-labels-idx1-ubyte").string()));
  EXPECT_TRUE(says(message, "dataset-fashion-mnist"));
}

TEST(FashionMnist, LabelCountThatDiffersIsRefusedEvenUnderALimit) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 12, 5);
  folder.write("train-labels-idx1-ubyte", test::idx({11}, test::Bytes(11, 0)));
  for (const std::int64_t limit : {0, 3}) {
    const auto message =
        input_error([&] { return load_fashion_mnist(folder.path(), Split::train, {}, limit); });
    EXPECT_TRUE(says(message, "12 samples but 11 labels"));
    EXPECT_TRUE(says(message, "train-labels-idx1-ubyte"));
  }
}

TEST(FashionMnist, LabelBeyondTheClassesNamesTheSample) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 12, 5);
  folder.write("t10k-labels-idx1-ubyte", test::idx({5}, {0, 1, 2, 10, 4}));
  const auto message = input_error([&] { return load_fashion_mnist(folder.path(), Split::test); });
  EXPECT_TRUE(says(message, "label 10 of sample 3 is not in [0, 10)"));
}

TEST(FashionMnist, FolderInPlaceOfAFileIsRefused) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 12, 5);
  fs::remove(folder.path() / "train-images-idx3-ubyte");
  fs::create_directory(folder.path() / "train-images-idx3-ubyte");
  const auto message = input_error([&] { return load_fashion_mnist(folder.path(), Split::train); });
  EXPECT_TRUE(says(message, "is a folder, not a file"));
}

TEST(FindFashionMnist, PathThatIsNoFolderIsRefused) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("file", {1});
  EXPECT_TRUE(
      says(input_error([&] { return find_fashion_mnist(file.string()); }), "is not a folder"));
  EXPECT_TRUE(
      says(input_error([&] { return find_fashion_mnist("/no/such/folder"); }), "is missing"));
}

TEST(FindFashionMnist, RelativePathThatIsMissingIsNamedWithWhereItWasLookedFor) {
  const std::string expected =
      "no/folder (looked for as " + (fs::current_path() / "no/folder").string() + ": ";
  EXPECT_TRUE(says(input_error([] { return find_fashion_mnist("no/folder"); }), expected));
  const Environment data("LOCKSTEP_DATA", "no/folder");
  EXPECT_TRUE(says(input_error([] { return find_fashion_mnist("auto"); }), expected));
}

TEST(FindFashionMnist, AutoPrefersTheVariableToTheSystemsFolders) {
  const test::TemporaryFolder chosen, system;
  test::write_mnist_files(chosen, 2, 2);
  fs::create_directories(system.path() / "datasets" / "fashion-mnist");
  const Environment data("LOCKSTEP_DATA", chosen.path().string());
  const Environment dirs("XDG_DATA_DIRS", system.path().string());
  EXPECT_EQ(find_fashion_mnist("auto"), chosen.path());
}

TEST(FindFashionMnist, VariableThatNamesNoDataIsAnErrorAndNotPassedOver) {
  const Environment data("LOCKSTEP_DATA", "/no/such/folder");
  const auto message = input_error([] { return find_fashion_mnist("auto"); });
  EXPECT_TRUE(says(message, "$LOCKSTEP_DATA names /no/such/folder, which is missing"));
}

TEST(FindFashionMnist, AutoTakesTheFirstCompleteSystemFolder) {
  const test::TemporaryFolder root, files;
  test::write_mnist_files(files, 2, 2);
  const auto incomplete = root.path() / "a", complete = root.path() / "b";
  fs::create_directories(incomplete / "datasets" / "fashion-mnist");
  fs::create_directories(complete / "datasets");
  fs::create_directory_symlink(files.path(), complete / "datasets" / "fashion-mnist");
  const Environment data("LOCKSTEP_DATA", std::nullopt);
  const Environment dirs("XDG_DATA_DIRS", incomplete.string() + "::" + complete.string());
  EXPECT_EQ(find_fashion_mnist("auto"), complete / "datasets" / "fashion-mnist");
}

TEST(FindFashionMnist, NothingFoundNamesPackageFilesAndPlaces) {
  const test::TemporaryFolder empty;
  const Environment data("LOCKSTEP_DATA", std::nullopt);
  const Environment dirs("XDG_DATA_DIRS", empty.path().string());
  const auto message = input_error([] { return find_fashion_mnist("auto"); });
  for (const std::string& part :
       {std::string("dataset-fashion-mnist"), std::string("train-images-idx3-ubyte"),
        std::string("train-labels-idx1-ubyte"), std::string("t10k-images-idx3-ubyte"),
        std::string("t10k-labels-idx1-ubyte"),
        (empty.path() / "datasets" / "fashion-mnist").string()}) {
    EXPECT_TRUE(says(message, part));
  }
}

}  // namespace
}  // namespace lockstep
