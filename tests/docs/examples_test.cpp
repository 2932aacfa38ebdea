#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
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

TEST(Readme, ShowsTheOwnModelProgramThatIsCompiled) {
  EXPECT_NE(read_file(source("README.md"))
                .find("```cpp\n" + read_file(source("docs/examples/own_model.cpp")) + "```"),
            std::string::npos)
      << "README.md does not hold docs/examples/own_model.cpp word for word";
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

TEST(Pages, EveryLinkToAFileLeadsToOne) {
  int links = 0;
  const std::regex link(R"(\]\(([^)#: ]+)(#[^)]*)?\))");
  for (const auto& page : pages()) {
    const std::string text = read_file(page);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at, ++links) {
      EXPECT_TRUE(fs::exists(page.parent_path() / (*at)[1].str()))
          << page << " links to " << (*at)[1];
    }
  }
  EXPECT_GT(links, 10);
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

/// The blocks of a page that begin with ```kind.
std::vector<std::string> blocks_of(const std::string& page, const std::string& kind) {
  const std::string text = read_file(source(page));
  const std::regex block("```" + kind + "\n([^`]*)```");
  std::vector<std::string> blocks;
  for (std::sregex_iterator at(text.begin(), text.end(), block), end; at != end; ++at)
    blocks.push_back((*at)[1]);
  return blocks;
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
      const Finished finished = run({"sh", "-c", "cd " + scratch.path() + " && " + line}, {}, 120);
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
