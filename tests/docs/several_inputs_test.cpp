#include <gtest/gtest.h>
#include <data/hdf5_files.hpp>

#include <regex>
#include <string>
#include <support/process.hpp>
#include <vector>

#include "page.hpp"

// docs/guide/write_an_app.md: a task of samples with several inputs.

namespace lockstep::test {
namespace {

/// y = gain[material] (a + b): neither input alone determines it.
std::string measured(const ScratchFolder& scratch) {
  const std::string file = scratch.file("measured.h5");
  const float gains[] = {-1.0F, 0.5F, 2.0F};
  std::uint32_t random = 1;
  const auto uniform = [&] {
    random = random * 1664525U + 1013904223U;
    return static_cast<float>(random >> 8U) / static_cast<float>(1U << 23U) - 1.0F;
  };
  for (const auto& [group, n] : {std::pair("train/", 1024), std::pair("test/", 256)}) {
    std::vector<float> numbers, values;
    std::vector<std::int32_t> materials;
    for (int i = 0; i < n; ++i) {
      numbers.insert(numbers.end(), {uniform(), uniform()});
      materials.push_back(i % 3);
      values.push_back(gains[i % 3] * (numbers[numbers.size() - 2] + numbers.back()));
    }
    write_hdf5(file, group + std::string("features"), {n, 2}, numbers);
    write_hdf5(file, group + std::string("material"), {n}, materials);
    write_hdf5(file, group + std::string("targets"), {n, 1}, values);
  }
  return file;
}

double figure(const std::string& summary, const std::string& name) {
  std::smatch found;
  const std::regex pattern("\"" + name + "\": ([0-9.e+-]+)");
  return std::regex_search(summary, found, pattern) ? std::stod(found[1]) : -1;
}

TEST(SeveralInputs, ReachTheModelOnAnyNumberOfRanks) {
  expect_excerpt("write_an_app.md", "several_inputs");

  const ScratchFolder scratch;
  const std::string deck = scratch.write(
      "deck.toml", "data = {kind = \"hdf5\", path = \"" + measured(scratch) +
                       "\", other_features = [\"material\"]}\n"
                       "train = {epochs = 20, batch_size = 32, reduction = \"invariant\"}\n"
                       "optimizer = {lr = 0.2}\n");
  std::string of_one;
  for (const int ranks : {1, 2}) {
    const std::string dir = scratch.file("run" + std::to_string(ranks));
    const Finished finished =
        run(app(ranks, "docs/examples/several_inputs", {deck, "--set", "run.dir=\"" + dir + "\""}),
            {}, 60);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    const std::string summary = read_file(dir + "/summary.json");
    EXPECT_GT(figure(summary, "test_r2"), 0.98) << summary;
    std::smatch found;
    const std::regex loss("\"test_loss\": [^,\n]*");
    ASSERT_TRUE(std::regex_search(summary, found, loss)) << summary;
    if (ranks == 1) of_one = found[0];
    EXPECT_EQ(found[0], of_one) << "invariant";
  }
  const Finished described =
      run(app(1, "docs/examples/several_inputs", {deck, "--describe"}), {}, 60);
  EXPECT_EQ(described.exit_code, 0) << described.output;
  EXPECT_TRUE(described.says("Linear")) << described.output;
  const Finished zoo = run(app(1, "apps/regress", {deck, "--dry-run"}), {}, 60);
  EXPECT_NE(zoo.exit_code, 0);
  EXPECT_TRUE(zoo.says("data.other_features")) << zoo.output;
}

}  // namespace
}  // namespace lockstep::test
