#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

std::vector<Json> metrics(const std::string& dir) {
  std::ifstream in(dir + "/metrics.jsonl");
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  return rows;
}

std::map<std::string, int> rows_by_kind(const std::vector<Json>& rows) {
  std::map<std::string, int> counts;
  for (const auto& row : rows) ++counts[row.at("kind").get<std::string>()];
  return counts;
}

class RunFolder : public testing::TestWithParam<int> {};

TEST_P(RunFolder, HoldsTheDocumentedFiles) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Finished run = classify(GetParam(), small_run(dir));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("epoch 4/4")) << run.output;
  EXPECT_TRUE(run.says("samples/s compute")) << "the table at the end\n" << run.output;

  const auto rows = metrics(dir);
  EXPECT_EQ(rows_by_kind(rows),
            (std::map<std::string, int>{{"step", 20}, {"epoch", 4}, {"eval", 4}}));
  for (const auto& row : rows) {
    EXPECT_TRUE(row.contains("step") && row.contains("epoch") && row.at("loss").is_number()) << row;
    if (row["kind"] == "step") {
      for (const char* part :
           {"compute", "communication", "communication_work", "communication_late", "data", "other",
            "forward", "backward", "optimizer"}) {
        EXPECT_EQ(row.at("time_min_mean_max_s").at(part).size(), 3U) << row;
      }
    }
  }

  const Json summary = Json::parse(read_file(dir + "/summary.json"));
  EXPECT_TRUE(summary.at("completed").get<bool>());
  EXPECT_EQ(summary.at("ranks"), GetParam());
  EXPECT_EQ(summary.at("epochs"), 4);
  EXPECT_EQ(summary.at("steps"), 40);
  EXPECT_EQ(summary.at("seed"), 1234);
  EXPECT_EQ(summary.at("peak_rss_mib").size(), static_cast<std::size_t>(GetParam()));
  for (const char* key :
       {"threads", "hosts", "train_loss", "test_loss", "test_accuracy", "samples_per_s", "wall_s",
        "version", "git_commit", "compiler", "flags", "libraries", "cpu_features", "deck_hash"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  for (const char* file : {"deck.toml", "log.txt", "curves.svg", "checkpoints/step-00000040.h5"}) {
    EXPECT_TRUE(std::filesystem::exists(dir + "/" + file)) << file;
  }
  const Finished verified =
      lockstep_utility({"checkpoint", "verify", dir + "/checkpoints/step-00000040.h5"});
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
}

INSTANTIATE_TEST_SUITE_P(Ranks, RunFolder, testing::Values(1, 2, 3, 4));

TEST(Classify, ResolvedDeckOfARunRepeatsIt) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(1, small_run(scratch.file("a"))).exit_code, 0);
  const Finished again =
      classify(1, {scratch.file("a/deck.toml"), "--set", "run.dir=\"" + scratch.file("b") + "\""});
  ASSERT_EQ(again.exit_code, 0) << again.output;
  const Json a = Json::parse(read_file(scratch.file("a/summary.json"))),
             b = Json::parse(read_file(scratch.file("b/summary.json")));
  EXPECT_EQ(a.at("test_loss"), b.at("test_loss"));
}

TEST(Classify, CompressedGradientsAreReportedBesideUncompressedBytes) {
  const ScratchFolder scratch;
  std::map<std::string, double> shares;
  for (const std::string hook : {"all_reduce", "bf16_compress", "power_sgd"}) {
    const std::string dir = scratch.file(hook);
    const Finished run =
        classify(2, small_run(dir, {"--set", "ddp.comm_hook=\"" + hook + "\"", "--set",
                                    "ddp.power_sgd_start_step=10", "--set", "train.epochs=2"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const Json summary = Json::parse(read_file(dir + "/summary.json"));
    EXPECT_EQ(run.says("gradients   " + hook), hook != "all_reduce") << run.output;
    EXPECT_EQ(summary.contains("comm_hook"), hook != "all_reduce");
    if (hook == "all_reduce") continue;
    EXPECT_EQ(summary.at("comm_hook").get<std::string>().rfind(hook, 0), 0U);
    shares[hook] = summary.at("gradient_bytes_sent").get<double>() /
                   summary.at("gradient_bytes_replaced").get<double>();
  }
  EXPECT_EQ(shares["bf16_compress"], 0.5);
  // Half of the steps send all gradients.
  EXPECT_GT(shares["power_sgd"], 0.5);
  EXPECT_LT(shares["power_sgd"], 0.7);
}

TEST(Classify, EvaluationGivesTheSameBitsOnAnyNumberOfRanks) {
  const ScratchFolder scratch;
  // With a tiny learning rate the weights stay equal, so the test compares only the evaluation.
  std::map<int, std::pair<Json, Json>> results;
  for (const int ranks : {1, 2, 3, 4}) {
    const std::string dir = scratch.file("run" + std::to_string(ranks));
    const Finished run =
        classify(ranks, small_run(dir, {"--set", "optimizer.lr=1e-30", "--set", "train.epochs=1",
                                        "--set", "eval.batch_size=17"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const Json summary = Json::parse(read_file(dir + "/summary.json"));
    results[ranks] = {summary.at("test_loss"), summary.at("test_accuracy")};
  }
  for (const auto& [ranks, result] : results) EXPECT_EQ(result, results[1]) << ranks << " ranks";
}

TEST(Classify, TopKAccuracyIsReportedAndOfAllClassesRefused) {
  const ScratchFolder scratch;
  const Finished run = classify(2, small_run(scratch.file("run"), {"--set", "eval.top_k=3"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const Json summary = Json::parse(read_file(scratch.file("run/summary.json")));
  EXPECT_GT(summary.at("test_top3_accuracy").get<double>(),
            summary.at("test_accuracy").get<double>());
  EXPECT_LE(summary.at("test_top3_accuracy").get<double>(), 1.0);
  const Finished all = classify(1, small_run(scratch.file("all"), {"--set", "eval.top_k=10"}));
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_TRUE(all.says("eval.top_k = 10 of 10 classes")) << all.output;
}

TEST(Classify, EarlierRunInTheSameFolderIsMovedAsideNotLost) {
  const ScratchFolder scratch;
  const auto arguments = small_run(scratch.file("run"), {"--set", "train.epochs=1"});
  ASSERT_EQ(classify(1, arguments).exit_code, 0);
  const Finished second = classify(1, arguments);
  ASSERT_EQ(second.exit_code, 0) << second.output;
  EXPECT_TRUE(second.says("was moved to")) << second.output;
  EXPECT_TRUE(std::filesystem::exists(scratch.file("run.1/summary.json")));
}

TEST(Classify, DryRunPrintsTheResolvedDeckChecksTheDataAndTrainsNothing) {
  const ScratchFolder scratch;
  const Finished run = classify(2, small_run(scratch.file("run"), {"--dry-run"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("[optimizer]")) << run.output;
  EXPECT_TRUE(run.says("Nothing was trained")) << run.output;
  EXPECT_FALSE(std::filesystem::exists(scratch.file("run")));
}

TEST(Classify, ResolvedDeckNamesTheRunFolderThatItsFilesNameStoodFor) {
  const Finished run = classify(1, {source("inputs/synthetic.toml"), "--dry-run"});
  EXPECT_TRUE(run.says("dir = \"runs/synthetic\"")) << run.output;
}

TEST(Classify, HelpAndVersionAreSaidOnceAndSucceed) {
  const Finished help = classify(2, {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.output.find("--dry-run"), help.output.rfind("--dry-run")) << help.output;
  EXPECT_EQ(classify(1, {"--version"}).output, "classify (Lockstep 0.1.0)\n");
}

TEST(Classify, CurvesAbsentWithoutGnuplotAreSaidInOneLine) {
  const ScratchFolder scratch;
  auto command =
      app(1, "apps/classify", small_run(scratch.file("run"), {"--set", "train.epochs=1"}));
  // A PATH with the launcher's helpers but without gnuplot.
  std::filesystem::create_directory(scratch.file("bin"));
  for (const char* program : {"hydra_pmi_proxy"}) {
    const std::string at = std::string("/usr/bin/") + program;
    if (std::filesystem::exists(at))
      std::filesystem::create_symlink(at, scratch.file("bin/") + program);
  }
  const Finished run = lockstep::test::run(command, {{"PATH", scratch.file("bin")}});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("not drawn: gnuplot could not be run")) << run.output;
}

TEST(Lockstep, DeckReferenceIsTheOneInTheDocumentation) {
  const Finished reference = lockstep_utility({"deck", "reference"});
  ASSERT_EQ(reference.exit_code, 0);
  EXPECT_EQ(reference.output, read_file(source("docs/reference/decks.md")))
      << "update it: build/release/apps/lockstep deck reference > docs/reference/decks.md";
}

TEST(Lockstep, ANewDeckIsGoodAsItIsAndWithEveryKeySet) {
  const ScratchFolder scratch;
  for (const char* program : {"classify", "regress", "fields", "gpt"}) {
    const Finished made = lockstep_utility({"deck", "new", program});
    ASSERT_EQ(made.exit_code, 0) << made.output;
    const std::string all =
        std::regex_replace(made.output, std::regex("\n#([a-z_0-9]+ = )"), "\n$1");
    EXPECT_NE(all, made.output);
    std::vector<std::string> resolved;
    for (const std::string& text : {made.output, all}) {
      const std::string file = scratch.file("new.toml");
      std::ofstream(file) << text;
      const Finished checked = lockstep_utility({"deck", "check", file});
      EXPECT_EQ(checked.exit_code, 0) << checked.output;
      resolved.push_back(checked.output);
    }
    EXPECT_EQ(resolved[0], resolved[1]);
  }
  EXPECT_EQ(lockstep_utility({"deck", "new", "sing"}).exit_code, 2);
}

TEST(Lockstep, ANewDeckHoldsTheKeysOfItsKindsOnly) {
  const ScratchFolder scratch;
  const Finished made =
      lockstep_utility({"deck", "new", "classify", "--model", "mlp", "--data", "csv", "--optimizer",
                        "adan", "--schedule", "cosine", "--loss", "huber"});
  ASSERT_EQ(made.exit_code, 0) << made.output;
  for (const char* line : {"\nkind = \"mlp\"", "\n#hidden = ", "\nkind = \"csv\"",
                           "\npath = ", "\n#target_columns = ", "\nkind = \"adan\"",
                           "\n#no_prox = ", "\nkind = \"cosine\"", "\n#t_max = ", "\n#delta = "}) {
    EXPECT_TRUE(made.says(line)) << line << made.output;
  }
  for (const char* key : {"dropout = 0.5", "heads", "synthetic_", "train_features", "tokenizer",
                          "momentum", "milestones", "patience"}) {
    EXPECT_FALSE(made.says(std::string("\n#") + key)) << key << made.output;
  }
  const std::string file = scratch.file("new.toml");
  std::ofstream(file) << made.output;
  const Finished checked = lockstep_utility({"deck", "check", file});
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_FALSE(checked.says("synthetic_") || checked.says("heads = ") ||
               checked.says("momentum = "))
      << checked.output;
  const Finished unknown = lockstep_utility({"deck", "new", "classify", "--model", "mpl"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(unknown.says("there is no model.kind = \"mpl\". Did you mean \"mlp\"?"))
      << unknown.output;
}

TEST(Lockstep, EveryBundledDeckIsGood) {
  int decks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source("inputs"))) {
    const Finished checked = lockstep_utility({"deck", "check", entry.path().string()});
    EXPECT_EQ(checked.exit_code, 0) << entry.path() << checked.output;
    ++decks;
  }
  EXPECT_GE(decks, 3);
}

TEST(Lockstep, DoctorNamesRanksAndLibraries) {
  const Finished doctor = run(app(2, "apps/lockstep", {"doctor"}));
  EXPECT_EQ(doctor.exit_code, 0) << doctor.output;
  EXPECT_TRUE(doctor.says("rank 1 on ") && doctor.says("oneDNN")) << doctor.output;
}

}  // namespace
}  // namespace lockstep::test
