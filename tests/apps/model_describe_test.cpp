// `lockstep model describe` and `classify DECK --check-gradients`, as users call them.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace lockstep::test {
namespace {

TEST(ModelDescribe, PrintsLayersShapesParametersFlopsAndMemory) {
  const auto result = lockstep_utility({"model", "describe", source("inputs/synthetic.toml")});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* text : {"conv1", "Conv2d", "[10, 24, 24]", "21840", "0.961", "gradients",
                           "optimizer state", "activations of 128 samples"}) {
    EXPECT_TRUE(result.says(text)) << text << " in\n" << result.output;
  }
}

/// The last number of the line that begins with `text`.
double figure(const std::string& output, const std::string& text) {
  const std::size_t begin = output.find("\n" + text);
  if (begin == std::string::npos) throw std::runtime_error(text + " is not in\n" + output);
  std::istringstream words(output.substr(begin, output.find('\n', begin + 1) - begin));
  double last = 0;
  for (std::string word; words >> word;) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (*end == '\0') last = value;
  }
  return last;
}

std::vector<std::string> deck_of(const std::string& model, const std::string& dir) {
  return {source("inputs/synthetic.toml"),
          "--set",
          "model.kind=\"" + model + "\"",
          "--set",
          "data.synthetic_channels=3",
          "--set",
          "data.synthetic_image_size=16",
          "--set",
          "data.synthetic_samples=96",
          "--set",
          "train.batch_size=48",
          "--set",
          "train.epochs=1",
          "--set",
          "eval.batch_size=16",
          "--set",
          "log.every_steps=1",
          "--set",
          "run.dir=\"" + dir + "\""};
}

TEST(ModelDescribe, FlopsAndPeakOfMemoryAreThoseOfARun) {
  for (const std::string model : {"resnet18", "transformer"}) {
    const ScratchFolder scratch;
    const std::string dir = scratch.file("run");
    std::vector<std::string> describe = deck_of(model, dir);
    describe.emplace_back("--describe");
    const Finished said = classify(1, describe), run = classify(1, deck_of(model, dir));
    ASSERT_EQ(said.exit_code, 0) << said.output;
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const double expected = figure(said.output, "the process at its peak") +
                            figure(said.output, "more, once a checkpoint is saved");
    const auto summary = nlohmann::json::parse(read_file(dir + "/summary.json"));
    EXPECT_NEAR(summary.at("peak_rss_mib")[0].get<double>() / expected, 1, 0.2) << model;

    std::istringstream lines(read_file(dir + "/metrics.jsonl"));
    int steps = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row.at("kind") != "step") continue;
      ++steps;
      const double of_a_sample =
          row.at("flops_per_s").get<double>() / row.at("samples_per_s").get<double>();
      EXPECT_NEAR(of_a_sample / (3e6 * figure(said.output, "total")), 1, 1e-5) << model;
      EXPECT_GT(row.at("of_peak").get<double>(), 0.0);
    }
    EXPECT_EQ(steps, 2);
    EXPECT_TRUE(run.says(" % of peak")) << run.output;
  }
}

TEST(Report, LeavesTheShareOfThePeakOutWhereFusedLayersSkipWork) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Finished run = classify(1, deck_of("convnet", dir));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("samples/s")) << run.output;
  EXPECT_FALSE(run.says("of peak")) << run.output;
  const std::string metrics = read_file(dir + "/metrics.jsonl");
  EXPECT_NE(metrics.find("flops_per_s"), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("of_peak"), std::string::npos) << metrics;
}

TEST(ModelDescribe, TakesOverridesAndRefusesUnfitOnes) {
  const auto deck = source("inputs/synthetic.toml");
  const auto other = lockstep_utility(
      {"model", "describe", deck, "--set", "model.kind=\"mlp\"", "--set", "model.hidden=[7]"});
  EXPECT_EQ(other.exit_code, 0) << other.output;
  EXPECT_TRUE(other.says("5575")) << other.output;  // 785 x 7 + 8 x 10
  const auto small =
      lockstep_utility({"model", "describe", deck, "--set", "data.synthetic_image_size=9"});
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_TRUE(small.says("16 x 16")) << small.output;
  EXPECT_EQ(lockstep_utility({"model", "describe", "no-such-deck.toml"}).exit_code, 2);
}

TEST(ModelDescribe, OfAMeshTellsGroupsSharesMemoryAndTraffic) {
  const std::vector<std::string> describe{"model",  "describe",    source("inputs/synthetic.toml"),
                                          "--mesh", "dp=2,fsdp=2", "--ranks-per-node",
                                          "2"};
  const auto result = lockstep_utility(describe);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  // 21,840 parameters, and SGD's momentum: 0.083 MiB each.
  for (const char* text :
       {"mesh pp=1 dp=2 fsdp=2 cp=1 tp=1: 4 ranks\n",
        "dp         2      0 2              between nodes\n",
        "fsdp       2      0 1              within a node\n", "conv2.weight  [20, 10, 5, 5]  whole",
        "21840 elements on the rank that holds most",
        "optimizer state                   0.08    0.04    0.04    0.04\n",
        "gathered at a time                0.00    0.04    0.17    0.17\n",
        "together, without activations     0.25    0.25    0.29    0.29\n",
        "with the deck's train.zero = 0 together 0.25 MiB, without activations\n",
        "parameters: all_gather                 -    0.04    0.04    0.08\n"}) {
    EXPECT_TRUE(result.says(text)) << text << " in\n" << result.output;
  }
  const auto state_of = [&](const std::vector<std::string>& settings) {
    auto arguments = describe;
    for (const std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back(setting);
    }
    return lockstep_utility(arguments).output;
  };
  EXPECT_NE(state_of({"optimizer.momentum=0"}).find("optimizer state                   0.00"),
            std::string::npos);
  EXPECT_NE(state_of({"model.kind=\"mlp\"", "optimizer.momentum=0.9"}).find("535818 elements"),
            std::string::npos);
}

TEST(ModelDescribe, OfADeckWithAMeshTellsItsOwnAndWithZeroItsMemory) {
  const std::vector<std::string> deck{source("inputs/synthetic.toml"), "--set",
                                      "model.kind=\"mlp\"", "--set", "mesh.tp=2"};
  std::vector<std::string> describe{"model", "describe"};
  describe.insert(describe.end(), deck.begin(), deck.end());
  const auto result = lockstep_utility(describe);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* text :
       {"535818", "activations of 128 samples", "The deck's mesh, planned:\nmesh pp=1 dp=1",
        "tp=2: 2 ranks", "[256, 784] rows", "with the deck's train.zero = 0 together 3.08 MiB"})
    EXPECT_TRUE(result.says(text)) << text << " in\n" << result.output;
  std::vector<std::string> of_program = deck;
  of_program.emplace_back("--describe");
  const auto four = classify(4, of_program);
  ASSERT_EQ(four.exit_code, 0) << four.output;
  EXPECT_TRUE(four.says("dp=2") && four.says("tp=2: 4 ranks")) << four.output;
  const auto three = classify(3, of_program);
  EXPECT_EQ(three.exit_code, 2) << three.output;
  EXPECT_TRUE(three.says("the sizes do not fit 3 ranks")) << three.output;
  const auto sharded =
      lockstep_utility({"model", "describe", source("inputs/synthetic.toml"), "--set",
                        "model.kind=\"mlp\"", "--set", "mesh.dp=2", "--set", "train.zero=3"});
  EXPECT_TRUE(sharded.says("with the deck's train.zero = 3 together 7.15 MiB")) << sharded.output;
  const auto one = lockstep_utility({"model", "describe", source("inputs/synthetic.toml")});
  EXPECT_FALSE(one.says("mesh")) << one.output;
}

TEST(ModelDescribe, RefusesMeshesThatDoNotFit) {
  const auto deck = source("inputs/synthetic.toml");
  const auto refusal = [&](const std::vector<std::string>& mesh, const char* sentence) {
    std::vector<std::string> arguments{"model", "describe", deck};
    arguments.insert(arguments.end(), mesh.begin(), mesh.end());
    const auto result = lockstep_utility(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(result.says(sentence)) << sentence << " in\n" << result.output;
  };
  refusal({"--mesh", "dp=2,tp=2"}, "ready plan");
  refusal({"--mesh", "pp=2"}, "cp and pp are planned for model.kind = \"gpt\" alone");
  refusal({"--set", "mesh.tp=2"}, "ready plan");
  refusal({"--mesh", "dp=129"}, "dp x fsdp is 129, but there are only 128 samples of a step");
  refusal({"--mesh", "two"}, "'two' is not a list of dimensions with sizes");
  refusal({"--ranks-per-node", "2"}, "--ranks-per-node requires --mesh");
  refusal({"--mesh", "dp=2", "--ranks-per-node", "0"}, "--ranks-per-node");
}

TEST(CheckGradients, PassForTheDefaultModelOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2}) {
    const ScratchFolder scratch;
    const auto result = classify(ranks, {source("inputs/synthetic.toml"), "--check-gradients",
                                         "--set", "run.dir=\"" + scratch.file("run") + "\""});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(result.says("conv1.weight")) << result.output;
    EXPECT_TRUE(result.says("every gradient agrees")) << result.output;
    EXPECT_FALSE(std::filesystem::exists(scratch.file("run"))) << "nothing is written";
  }
}

}  // namespace
}  // namespace lockstep::test
