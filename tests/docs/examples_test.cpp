#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <support/process.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> pages() {
  std::vector<fs::path> all{source("README.md"), source("CONTRIBUTING.md")};
  for (const auto& entry : fs::recursive_directory_iterator(source("docs"))) {
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  }
  return all;
}

/// The blocks of a page that begin with ```kind.
std::vector<std::string> blocks_of(const std::string& page, const std::string& kind) {
  const std::string text = read_file(source(page));
  const std::regex block("```" + kind + "\n([^`]*)```");
  std::vector<std::string> blocks;
  for (std::sregex_iterator at(text.begin(), text.end(), block), end; at != end; ++at)
    blocks.push_back((*at)[1]);
  return blocks;
}

TEST(Readme, ShowsPartOfTheProgramOfTutorial3) {
  const auto blocks = blocks_of("README.md", "cpp");
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_NE(read_file(source("docs/examples/many_ranks.cpp")).find(blocks[0]), std::string::npos)
      << "docs/examples/many_ranks.cpp does not hold\n"
      << blocks[0];
}

TEST(OwnModel, LearnsOnOneAndThreeRanks) {
  for (const int ranks : {1, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/own_model", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    std::smatch last;
    ASSERT_TRUE(std::regex_search(finished.output, last, std::regex("epoch 3  loss ([0-9.]+)")))
        << finished.output;
    EXPECT_LT(std::stod(last[1]), 0.3) << finished.output;
  }
}

TEST(Examples, EndWithASentenceAndANonZeroCodeWhereTheirArgumentsAreWrong) {
  const ScratchFolder scratch;
  const std::string none = scratch.file("none"), below_a_file = scratch.write("file", "x") + "/y";
  struct Case {
    const char* program;
    int ranks;
    std::vector<std::string> arguments;
    int code;
    std::string said;
  };
  const std::vector<Case> cases{
      {"predict", 1, {}, 2, "predict: name a run folder or a checkpoint: predict RUN"},
      {"predict", 1, {none}, 4, "predict: checkpoint unusable: cannot open " + none},
      {"predict_own_model", 1, {}, 2, "predict_own_model: name the checkpoint to write"},
      {"predict_own_model", 1, {below_a_file}, 4, "predict_own_model: "},
      {"read_checkpoint", 1, {}, 2, "read_checkpoint: name a run folder: read_checkpoint RUN"},
      {"read_checkpoint", 1, {none}, 4, "read_checkpoint: "},
      {"remote_calls", 1, {}, 2, "start at least 2 ranks: mpiexec -n 2 remote_calls"},
      {"groups", 1, {}, 2, "start at least 2 ranks: mpiexec -n 2 groups"},
      {"messages", 1, {}, 2, "start at least 2 ranks: mpiexec -n 2 messages"},
      {"heat_residual", 2, {"x"}, 2, "heat_residual [STEPS, from 1 on]"},
      {"save_and_load", 2, {none, "x"}, 2, "save_and_load [FOLDER [EPOCHS, from 1 on]]"},
      {"own_kinds", 2, {none}, 2, none},
      {"own_optimizer", 2, {none}, 2, none},
      {"several_inputs", 2, {none}, 2, none},
      {"train_to_target", 2, {none}, 2, none},
  };
  for (const auto& [program, ranks, arguments, code, said] : cases) {
    const Finished finished = run(app(ranks, std::string("docs/examples/") + program, arguments));
    EXPECT_TRUE(finished.ended_with(code)) << program << finished.exit_code << finished.output;
    EXPECT_TRUE(finished.says(said)) << program << finished.output;
    EXPECT_FALSE(finished.says("terminate")) << program << finished.output;
  }
}

/// The names by which GitHub links to a page's headings: letters in lower case, hyphens for spaces,
/// nothing for other characters than these, digits, hyphens and underscores; "-1" behind the second
/// of equal ones.
std::set<std::string> anchors_of(const std::string& text) {
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  std::istringstream lines(text);
  bool in_block = false;
  const std::regex heading("#{1,6} +(.*?) *"), link(R"(\[([^\]]*)\]\([^)]*\))");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) in_block = !in_block;
    std::smatch match;
    if (in_block || !std::regex_match(line, match, heading)) continue;
    std::string slug;
    for (const char c : std::regex_replace(match[1].str(), link, "$1")) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == ' ') slug += '-';
      if (c == '-' || c == '_' || byte >= 0x80 || std::isalnum(byte) != 0)
        slug += static_cast<char>(std::tolower(byte));
    }
    const int before = seen[slug]++;
    anchors.insert(before == 0 ? slug : slug + "-" + std::to_string(before));
  }
  return anchors;
}

TEST(Pages, HeadingsHaveGitHubsNames) {
  const auto anchors = anchors_of(
      "# GPT-2's weights\n```sh\n# no heading\n```\n## `--set`, a [link](x.md)\n## Data\n## "
      "Data\n");
  EXPECT_EQ(anchors, (std::set<std::string>{"gpt-2s-weights", "--set-a-link", "data", "data-1"}));
}

TEST(Pages, EveryLinkToAFileOrHeadingLeadsToOne) {
  int links = 0, anchored = 0;
  const std::regex link(R"(\]\(([^)#: ]*)(?:#([^) ]*))?\))");
  for (const auto& page : pages()) {
    const std::string text = read_file(page);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at, ++links) {
      const fs::path target = (*at)[1].length() == 0 ? page : page.parent_path() / (*at)[1].str();
      EXPECT_TRUE(fs::exists(target)) << page << " links to " << (*at)[1];
      if (!(*at)[2].matched || target.extension() != ".md") continue;
      EXPECT_TRUE(anchors_of(read_file(target)).contains((*at)[2]))
          << page << " links to " << (*at)[1] << "#" << (*at)[2] << ", a heading that is not there";
      ++anchored;
    }
  }
  EXPECT_GT(links, 100);
  EXPECT_GT(anchored, 50);
}

TEST(Pages, EveryDeckKeySetOnACommandLineIsOneThatDecksHave) {
  const std::string reference = read_file(source("docs/reference/decks.md"));
  int keys = 0;
  const std::regex set(R"(--set '?([a-z_]+)\.([a-z_]+)=)");
  for (const auto& page : pages()) {
    const std::string text = read_file(page);
    for (std::sregex_iterator at(text.begin(), text.end(), set), end; at != end; ++at, ++keys) {
      EXPECT_NE(reference.find((*at)[2].str()), std::string::npos) << page << ": " << at->str();
    }
  }
  EXPECT_GT(keys, 3);
}

class Decks : public testing::TestWithParam<const char*> {};

TEST_P(Decks, OfThePageAreRight) {
  const ScratchFolder scratch;
  for (const auto& entry : fs::directory_iterator(source("inputs"))) {
    fs::copy(entry.path(), scratch.file(entry.path().filename().string()));
  }
  const auto decks = blocks_of(GetParam(), "toml");
  for (std::size_t i = 0; i < decks.size(); ++i) {
    const std::string deck = scratch.write("page_" + std::to_string(i) + ".toml", decks[i]);
    const Finished finished = run({built("apps/lockstep"), "deck", "check", deck});
    EXPECT_EQ(finished.exit_code, 0) << decks[i] << finished.output;
  }
  EXPECT_GE(decks.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Pages, Decks,
                         testing::Values("docs/guide/data.md", "docs/guide/decks.md",
                                         "docs/guide/gpt.md", "docs/guide/mixed_precision.md",
                                         "docs/guide/models.md"));

TEST(ModelsPage, ShowsTheOutputOfModelDescribe) {
  const Finished finished =
      run({built("apps/lockstep"), "model", "describe", source("inputs/synthetic.toml")});
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  // Without the last line, a measurement: the memory of one step.
  const std::string described = finished.output.substr(0, finished.output.rfind("activations"));
  EXPECT_NE(read_file(source("docs/guide/models.md")).find("```\n" + described), std::string::npos)
      << "docs/guide/models.md does not hold\n"
      << described;
}

/// A command that trains, measures or describes for less long: to which figures these decks come,
/// apps.regress and apps.fields look at.
std::string shortened(const std::string& command) {
  if (command.find("apps/regress ") != std::string::npos) return command + " --set train.epochs=2";
  if (command.find("lockstep scaling ") != std::string::npos) return command + " --repeat 1";
  if (command.find("model describe ") != std::string::npos)
    return command + " --set train.batch_size=16";
  return command;
}

// The two scripts are CI itself. Every other line of these pages' shell blocks runs here, in a
// scratch folder with the sources' inputs/ and this build in place of build/release.
class Commands : public testing::TestWithParam<const char*> {};

TEST_P(Commands, OfThePageSucceed) {
  const ScratchFolder scratch;
  fs::create_directory_symlink(source("inputs"), scratch.file("inputs"));
  fs::create_directory(scratch.file("build"));
  fs::create_directory_symlink(built(""), scratch.file("build/release"));
  int commands = 0;
  for (const std::string& block : blocks_of(GetParam(), "sh")) {
    std::istringstream lines(block);
    for (std::string line; std::getline(lines, line);) {
      line = line.substr(0, line.find("  #"));
      if (line.empty() || line.find("scripts/") != std::string::npos) continue;
      if (line.find("sbatch") != std::string::npos || line.find("cmake") != std::string::npos)
        continue;
      const Finished finished =
          run({"sh", "-c", "cd " + scratch.path() + " && " + shortened(line)}, {}, 120);
      EXPECT_EQ(finished.exit_code, 0) << line << "\n" << finished.output;
      ++commands;
    }
  }
  EXPECT_GE(commands, 3);
}

INSTANTIATE_TEST_SUITE_P(Pages, Commands,
                         testing::Values("README.md", "docs/guide/data.md",
                                         "docs/guide/debug_a_hang.md", "docs/guide/models.md"));

}  // namespace
}  // namespace lockstep::test
