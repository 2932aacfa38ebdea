#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <support/process.hpp>
#include <vector>

// docs/tutorials: the pages show real behaviour. A code block's kind says what it is:
//   cpp   lines of a program in docs/examples, word for word
//   diff  of the two programs that it names
//   sh    commands, which are run; a block without a kind after them is what they print
//   toml  the deck that the text before it names
//   bash, text, cmake  what another machine or moment decides: not looked at here

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* tutorials[] = {"01_from_one_process_to_many",
                                     "02_what_ddp_does",
                                     "03_from_one_rank_to_many",
                                     "04_surviving_failures",
                                     "05_several_nodes",
                                     "06_gpt",
                                     "07_model_over_two_ranks",
                                     "08_remote_calls",
                                     "09_parameter_server",
                                     "10_batched_calls",
                                     "11_ddp_and_rpc",
                                     "12_inside_your_simulation",
                                     "13_from_pytorch",
                                     "14_on_gpus",
                                     "15_a_scaling_study"};

struct PageBlock {
  std::string kind, text;
  std::string file;  ///< the last one that the text before it names: `gpt.toml`
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<PageBlock> blocks_in(const std::string& page) {
  std::vector<PageBlock> blocks;
  bool inside = false;
  std::string file;
  const std::regex named("`([a-z_]+\\.toml)`");
  for (const std::string& line : lines_of(page)) {
    std::smatch name;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), "", file});
    } else if (inside) {
      blocks.back().text += line + "\n";
    } else if (std::regex_search(line, name, named)) {
      file = name[1];
    }
  }
  EXPECT_FALSE(inside) << "a block has no end";
  return blocks;
}

std::string every_example() {
  std::string all;
  for (const auto& entry : fs::directory_iterator(source("docs/examples"))) {
    const auto kind = entry.path().extension();
    if (kind == ".cpp" || kind == ".hpp") all += "\n" + read_file(entry.path());
  }
  return all;
}

/// Words must be equal; numbers with a decimal point, which another processor rounds differently,
/// must be near.
bool agree(const std::string& shown, const std::string& printed) {
  if (shown == printed) return true;
  char *end_shown = nullptr, *end_printed = nullptr;
  const double a = std::strtod(shown.c_str(), &end_shown);
  const double b = std::strtod(printed.c_str(), &end_printed);
  return shown.find('.') != std::string::npos && *end_shown == '\0' && *end_printed == '\0' &&
         std::abs(a - b) <= 0.02 + 0.1 * std::max(std::abs(a), std::abs(b));
}

bool lines_agree(const std::string& shown, const std::string& printed) {
  std::istringstream a(shown), b(printed);
  std::string word, other;
  while (a >> word) {
    if (!(b >> other) || !agree(word, other)) return false;
  }
  return !(b >> other);
}

/// A line `...` of the page stands for any lines.
bool shows(const std::vector<std::string>& page, std::size_t at,
           const std::vector<std::string>& printed, std::size_t from) {
  if (at == page.size()) return from == printed.size();
  if (page[at] == "...") {
    for (std::size_t next = from; next <= printed.size(); ++next) {
      if (shows(page, at + 1, printed, next)) return true;
    }
    return false;
  }
  return from < printed.size() && lines_agree(page[at], printed[from]) &&
         shows(page, at + 1, printed, from + 1);
}

class Tutorial : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static std::string page() {
    return read_file(source("docs/tutorials/" + std::string(GetParam()) + ".md"));
  }
};

TEST_P(Tutorial, HasAtMost200LinesAndIsInTheIndex) {
  EXPECT_LE(lines_of(page()).size(), 200U);
  EXPECT_NE(
      read_file(source("docs/tutorials/README.md")).find("(" + std::string(GetParam()) + ".md)"),
      std::string::npos);
}

TEST_P(Tutorial, ShowsProgramsThatAreCompiled) {
  static const std::string examples = every_example();
  for (const PageBlock& block : blocks_in(page())) {
    const std::string& text = block.text;
    if (block.kind == "cpp") {
      EXPECT_NE(examples.find("\n" + text), std::string::npos)
          << "no program in docs/examples holds word for word\n"
          << text;
    }
    if (block.kind == "diff") {
      const auto lines = lines_of(text);
      ASSERT_GE(lines.size(), 2U);
      const std::string before = lines[0].substr(4), after = lines[1].substr(4);
      const Finished finished =
          run({"diff", "-u", "--label", before, "--label", after, source(before), source(after)});
      EXPECT_EQ(finished.exit_code, 1);
      EXPECT_EQ(text, finished.output);
    }
  }
}

TEST_P(Tutorial, ShowsTheOutputOfItsCommands) {
  const ScratchFolder scratch;
  for (const char* folder : {"inputs", "docs"})
    fs::create_directory_symlink(source(folder), scratch.file(folder));
  fs::create_directory(scratch.file("build"));
  fs::create_directory_symlink(built(""), scratch.file("build/release"));
  const auto blocks = blocks_in(page());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].kind == "toml") scratch.write(blocks[i].file, blocks[i].text);
    if (blocks[i].kind != "sh") continue;
    const Finished finished =
        run({"sh", "-ec", "cd " + scratch.path() + "\n" + blocks[i].text}, {}, 240);
    EXPECT_EQ(finished.exit_code, 0) << blocks[i].text << finished.output;
    if (i + 1 == blocks.size() || !blocks[i + 1].kind.empty()) continue;
    EXPECT_TRUE(shows(lines_of(blocks[i + 1].text), 0, lines_of(finished.output), 0))
        << blocks[i].text << "prints\n"
        << finished.output << "and not\n"
        << blocks[i + 1].text;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, Tutorial, testing::ValuesIn(tutorials),
                         [](const auto& page) { return std::string(page.param); });

TEST(Tutorials, AreAllLookedAt) {
  for (const auto& entry : fs::directory_iterator(source("docs/tutorials"))) {
    const std::string name = entry.path().stem();
    EXPECT_TRUE(name == "README" || std::ranges::find(tutorials, name) != std::end(tutorials))
        << name;
  }
}

// tests/docs/idioms.cpp holds the calls that these pages show beside PyTorch's.
TEST(Tutorials, CallsBesidePyTorchsAreCompiled) {
  const std::string idioms = read_file(source("tests/docs/idioms.cpp"));
  const std::regex row("\\|[^|]*\\|([^|]*)\\|"), call("`([^`]*\\([^`]*)`");
  int calls = 0;
  for (const char* page : {"13_from_pytorch", "14_on_gpus"}) {
    for (const std::string& line :
         lines_of(read_file(source(std::string("docs/tutorials/") + page + ".md")))) {
      std::smatch cells;
      if (!std::regex_match(line, cells, row)) continue;
      const std::string right = cells[1];
      for (std::sregex_iterator at(right.begin(), right.end(), call), end; at != end; ++at) {
        EXPECT_NE(idioms.find((*at)[1]), std::string::npos) << page << ": " << (*at)[1];
        ++calls;
      }
    }
  }
  EXPECT_GT(calls, 40);
}

// Tutorial 6 shows what a network makes of a text that grows and shrinks with the documentation.
TEST(Tutorials, TheTextOfTheGptIsAboutAsLongAsThePageSays) {
  double bytes = 0;
  for (const char* folder : {"docs/guide", "docs/reference"}) {
    for (const auto& entry : fs::directory_iterator(source(folder)))
      if (entry.path().extension() == ".md") bytes += static_cast<double>(entry.file_size());
  }
  const std::string page = read_file(source("docs/tutorials/06_gpt.md"));
  std::smatch shown;
  ASSERT_TRUE(std::regex_search(page, shown, std::regex("some ([0-9]+) KB")));
  EXPECT_NEAR(bytes / 1000, std::stod(shown[1]), 0.2 * std::stod(shown[1]));
}

// Killed between two snapshots, at one, and next to the ends of epochs (32, 64, 96) and of the run.
TEST(Snapshots, ARunKilledAgainAndAgainEndsWithTheBitsOfAnUndisturbedOne) {
  const ScratchFolder scratch;
  const std::string calm = scratch.file("calm"), killed = scratch.file("killed");
  const auto train = [](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(app(2, "docs/examples/snapshots", arguments));
  };
  EXPECT_TRUE(train(calm, {}).says("complete after step 96"));
  for (const char* step : {"5", "10", "25", "31", "32", "33", "58", "64", "90", "95"}) {
    const Finished finished = train(killed, {step});
    EXPECT_FALSE(finished.says("complete")) << step << finished.output;
  }
  EXPECT_FALSE(
      train(killed, {"93", "10"}).says("complete"));  // SIGUSR1, after which it ends with 75
  EXPECT_TRUE(train(killed, {}).says("resumed from step 94"));
  const std::string last = "/step-00000096.h5";
  const Finished compared =
      run({built("apps/lockstep"), "checkpoint", "diff", calm + last, killed + last});
  EXPECT_EQ(compared.exit_code, 0) << compared.output;
}

// /proc takes no file, as a full disk does not: all ranks know, and say so once.
TEST(Snapshots, ASaveThatFailsIsOneSentenceAndTheExitCodeOfCheckpoints) {
  for (const std::string program : {"snapshots", "save_and_load"}) {
    const Finished finished = run(app(2, "docs/examples/" + program, {"/proc"}));
    EXPECT_EQ(finished.exit_code, 4) << finished.output;
    const std::string begin = program + ": ", end = "Earlier checkpoints are unchanged.\n";
    EXPECT_TRUE(finished.output.starts_with(begin)) << finished.output;
    EXPECT_EQ(finished.output.find(end), finished.output.size() - end.size()) << finished.output;
  }
}

TEST(ElasticPage, ShowsLinesOfSaveAndLoad) {
  const std::string program = read_file(source("docs/examples/save_and_load.cpp"));
  int shown = 0;
  for (const PageBlock& block : blocks_in(read_file(source("docs/guide/elastic.md")))) {
    if (block.kind != "cpp") continue;
    ++shown;
    EXPECT_NE(program.find("\n" + block.text), std::string::npos) << block.text;
  }
  EXPECT_EQ(shown, 3);
}

// What the comparison above takes for equal.
TEST(Tutorials, OutputsMayDifferInRoundingOnly) {
  EXPECT_TRUE(lines_agree("epoch 1  loss 0.512", "epoch 1 loss 0.508"));
  EXPECT_FALSE(lines_agree("epoch 1  loss 0.512", "epoch 2  loss 0.512"));
  EXPECT_FALSE(lines_agree("loss 0.512", "loss 0.9"));
  EXPECT_FALSE(lines_agree("loss 0.512", "loss nan"));
  EXPECT_FALSE(lines_agree("loss", "loss 0.512"));
  EXPECT_TRUE(shows({"a", "...", "d"}, 0, {"a", "b", "c", "d"}, 0));
  EXPECT_FALSE(shows({"a", "..."}, 0, {"b"}, 0));
}

}  // namespace
}  // namespace lockstep::test
