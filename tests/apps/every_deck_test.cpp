// Every verb of every program knows every deck of inputs/, and the resolved deck of a run of it.
#include <gtest/gtest.h>
#include <data/image_files.hpp>

#include <algorithm>
#include <apps/small_run.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

Arguments decks() {
  Arguments names;
  for (const auto& entry : fs::directory_iterator(source("inputs")))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

/// A deck reduced in size, with its data.
class EveryDeck : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    settings_ = {"--set", "run.dir=\"" + scratch_.file("run") + "\"",
                 "--set", "train.epochs=1",
                 "--set", "data.train_limit=200",
                 "--set", "data.test_limit=100"};
    if (text()) {
      settings_.insert(settings_.end(), {"--set", "data.path=\"" + scratch_.file("tokens") + "\"",
                                         "--set", "data.context=16", "--set", "schedule.warmup=2"});
      std::string numbers;
      for (int i = 0; i < 10000; ++i) numbers += std::to_string(i) + ' ';
      const Finished made = run({built("apps/gpt"), "tokens", scratch_.write("text.txt", numbers),
                                 "--output", scratch_.file("tokens")});
      ASSERT_EQ(made.exit_code, 0) << made.output;
    }
    if (images()) {
      // Small, for the time that an unoptimised build takes.
      settings_.insert(settings_.end(), {"--set", "data.path=\"" + scratch_.file("images") + "\"",
                                         "--set", "data.image_size=32", "--set",
                                         "data.image_resize=36", "--set", "train.batch_size=4"});
      for (const std::string file :
           {"train/a/1", "train/a/2", "train/b/3", "train/b/4", "val/a/5", "val/b/6"})
        write_png(scratch_.file("images/" + file + ".png"), 40, 40,
                  std::vector<std::uint8_t>(4800, static_cast<std::uint8_t>(file.back())));
    }
    if (!regression()) return;
    settings_.insert(settings_.end(), {"--set", "data.path=\"" + scratch_.file("heat.h5") + "\""});
    Arguments command{built("apps/heat_data"), scratch_.file("heat.h5")};
    if (GetParam() == "heat_step") command.insert(command.end(), {"--step", "2"});
    if (GetParam() == "heat_step_3d")
      command.insert(command.end(), {"--step", "3", "--points", "8"});
    ASSERT_EQ(run(command).exit_code, 0);
  }

  [[nodiscard]] bool regression() const { return GetParam().starts_with("heat"); }
  [[nodiscard]] bool images() const { return GetParam() == "image_folder"; }
  [[nodiscard]] bool text() const { return GetParam().starts_with("gpt"); }
  /// The deck's program.
  [[nodiscard]] Finished start(int ranks, Arguments arguments) const {
    if (text()) arguments.insert(arguments.begin(), "train");
    return run(app(ranks,
                   regression() ? "apps/regress"
                   : text()     ? "apps/gpt"
                                : "apps/classify",
                   arguments));
  }
  [[nodiscard]] Arguments deck(Arguments more = {}) const {
    Arguments all{source("inputs/" + GetParam() + ".toml")};
    all.insert(all.end(), settings_.begin(), settings_.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  ScratchFolder scratch_;
  Arguments settings_;
};

/// `output` without its last line, and that line.
std::pair<std::string, std::string> split_last_line(const std::string& output) {
  const auto end = output.find_last_not_of('\n') + 1;
  const auto begin = output.rfind('\n', end - 1) + 1;
  return {output.substr(0, begin), output.substr(begin, end - begin)};
}

/// A resolved deck without the values that a run measures.
std::string without_measured(const std::string& deck) {
  return std::regex_replace(deck,
                            std::regex("\n(mean|std|target_mean|target_std|vocabulary|tokenizer|"
                                       "class_names|image_listing) = [^\n]*"),
                            "");
}

Finished utility(Arguments verb, const Arguments& arguments) {
  verb.insert(verb.end(), arguments.begin(), arguments.end());
  return lockstep_utility(verb);
}

TEST_P(EveryDeck, ResolvedOneOfARunIsTheSameDeckToEveryProgram) {
  good(start(2, deck()));
  const std::string file = scratch_.file("run/deck.toml"), stored = read_file(file);
  const auto line = stored.find('\n') + 1;
  const std::string hash = stored.substr(7, 16), text = stored.substr(line);
  ASSERT_EQ(stored.substr(0, line), "# hash " + hash + "\n");

  const auto again = split_last_line(good(utility({"deck", "check"}, {file})));
  EXPECT_EQ(again.first, text);
  EXPECT_EQ(again.second, "# good; hash " + hash);
  const auto told = split_last_line(good(utility({"deck", "check"}, deck())));
  const std::string unmeasured = this->text()     ? "\ntokenizer = \"\""
                                 : this->images() ? "\nimage_listing = \"\""
                                                  : "\nmean = []";
  EXPECT_EQ(text.find(unmeasured), std::string::npos) << "the run knows what it measured";
  EXPECT_EQ(without_measured(told.first), without_measured(text));
  const std::string dry = good(start(1, {file, "--dry-run"}));
  EXPECT_EQ(split_last_line(dry).first, text);
  good(utility({"model", "describe"}, {file}));
  good(utility({"doctor"}, {file}));
}

TEST_P(EveryDeck, IsDescribedByTheUtilityAndByItsProgram) {
  // The programs' own memory differs, and so does the peak.
  const auto of_the_model = [](const std::string& report) {
    return std::regex_replace(report, std::regex("\nthe process at its peak [^\n]*"), "");
  };
  const std::string report = of_the_model(good(utility({"model", "describe"}, deck())));
  EXPECT_NE(report.find("optimizer state"), std::string::npos) << report;
  const std::string on_two_ranks = of_the_model(good(start(2, deck({"--describe"}))));
  EXPECT_TRUE(on_two_ranks.starts_with(report + "\nThe deck's mesh, planned:\n")) << on_two_ranks;
  EXPECT_NE(on_two_ranks.find("\nmesh pp=1 dp=2 fsdp=1 cp=1 tp=1: 2 ranks\n"), std::string::npos)
      << on_two_ranks;
  EXPECT_FALSE(fs::exists(scratch_.file("run"))) << "nothing is written";
}

TEST_P(EveryDeck, IsExaminedByTheDoctorAndByItsProgram) {
  const auto examined = [](const Finished& finished) {
    auto json = nlohmann::json::parse(good(finished));
    EXPECT_EQ(json["ranks"].size(), 2U);
    EXPECT_EQ(json["links"].size(), 1U);
    return std::pair(json["gradient_bytes"].get<int>(), json["run_folder"].get<std::string>());
  };
  Arguments verb{"doctor", "--json"};
  const Arguments all = deck();
  verb.insert(verb.end(), all.begin(), all.end());
  const auto by_utility = examined(run(app(2, "apps/lockstep", verb)));
  EXPECT_GT(by_utility.first, 1000);
  EXPECT_EQ(examined(start(2, deck({"--doctor", "--json"}))), by_utility);
  EXPECT_FALSE(fs::exists(scratch_.file("run"))) << "nothing is written";
}

INSTANTIATE_TEST_SUITE_P(Inputs, EveryDeck, testing::ValuesIn(decks()),
                         [](const auto& test) { return test.param; });

TEST(Tools, MissingDataAreExitTwoAndSayHowTheyAreMadeAndWhereTheyWereLookedFor) {
  const ScratchFolder scratch;
  const auto here = [&](const std::string& verb, const Arguments& more = {}) {
    Arguments command{"bash", "-c", "cd " + scratch.path() + " && exec " + verb + " \"$@\"", "bash",
                      source("inputs/heat.toml")};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  const std::string tool = built("apps/lockstep"), regress = built("apps/regress");
  for (const auto& finished :
       {here(tool + " doctor"), here(tool + " model describe"), here(regress, {"--describe"}),
        here(regress, {"--doctor"}), here(regress)}) {
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says("data file heat.h5 (looked for as " + scratch.file("heat.h5")))
        << finished.output;
    EXPECT_TRUE(finished.says("the program heat_data")) << finished.output;
  }
  EXPECT_EQ(here(tool + " deck check").exit_code, 0) << "needs no data";
}

TEST(Tools, DeckOfAProgramOfOnesOwnIsKnownToThatProgramAndPointedThereByTheUtility) {
  const Arguments deck{source("inputs/synthetic.toml"), "--set", "my_task.factor=0.5"};
  for (const Arguments& verb : {Arguments{"deck", "check"}, {"model", "describe"}, {"doctor"}}) {
    const Finished finished = utility(verb, deck);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says("unknown table [my_task]")) << finished.output;
    EXPECT_TRUE(finished.says("PROGRAM DECK --dry-run, --describe or --doctor")) << finished.output;
  }
  for (const auto& [verb, says] : {std::pair("--dry-run", "\n[my_task]\nfactor = 0.5\n"),
                                   {"--describe", "LogSoftmax"},
                                   {"--doctor", "gradients: 0.1 MiB a rank"}}) {
    Arguments arguments = deck;
    arguments.emplace_back(verb);
    const std::string output = good(run(app(2, "tests/apps/own_task", arguments)));
    EXPECT_NE(output.find(says), std::string::npos) << verb << '\n' << output;
  }
}

TEST(Tools, DoctorOfAProgramSpeaksTextUnlessAskedForJson) {
  const Finished finished = classify(2, {source("inputs/synthetic.toml"), "--doctor"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("gradients: 0.1 MiB a rank\n")) << finished.output;
}

TEST(Tools, OneThingIsLookedAtAtATime) {
  const auto deck = source("inputs/synthetic.toml");
  for (const Arguments& both : {Arguments{deck, "--describe", "--doctor"},
                                {deck, "--dry-run", "--check-gradients"},
                                {deck, "--json"}}) {
    const Finished finished = classify(2, both);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(both.back())) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
