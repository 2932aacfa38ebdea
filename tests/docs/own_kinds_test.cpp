#include <gtest/gtest.h>

#include <string>
#include <support/process.hpp>
#include <vector>

#include "page.hpp"

// docs/guide/write_an_app.md: a program with a schedule, a model, a loss and data of its own.

namespace lockstep::test {
namespace {

TEST(OwnKindsOfThePage, AreChosenByADeck) {
  const std::string page = read_file(source("docs/guide/write_an_app.md"));
  expect_excerpt("write_an_app.md", "own_kinds");
  const std::string begin = "```toml\ndata = {kind = \"wave\"";
  const auto at = page.find(begin);
  ASSERT_NE(at, std::string::npos);
  const auto first = at + std::string("```toml\n").size();
  const std::string of_page = page.substr(first, page.find("```", first) - first);

  const ScratchFolder scratch;
  const std::string deck = scratch.write("deck.toml", of_page);
  const auto train = [&](int ranks, const std::vector<std::string>& more) {
    std::vector<std::string> all{deck, "--set", "run.dir=\"" + scratch.file("run") + "\""};
    all.insert(all.end(), more.begin(), more.end());
    return run(app(ranks, "docs/examples/own_kinds", all), {}, 60);
  };
  const Finished planned = train(1, {"--dry-run"});
  ASSERT_EQ(planned.exit_code, 0) << planned.output;
  for (const char* line :
       {"kind = \"wave\"\nsamples = 40\n", "kind = \"residual\"\nwidth = 16\ndepth = 1\n",
        "kind = \"log_cosh\"\n", "kind = \"inverse_sqrt\"\ntimescale = 8.0\nwarmup = 2\n"})
    EXPECT_TRUE(planned.says(line)) << line << planned.output;

  const Finished trained = train(2, {});
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_TRUE(trained.says("r2")) << trained.output;
  const Finished resumed = train(1, {"--resume", "--set", "train.epochs=5"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;

  const Finished misspelt = train(1, {"--set", "model.widht=8"});
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_TRUE(misspelt.says("unknown key model.widht. Did you mean width?")) << misspelt.output;
  const Finished unknown = train(1, {"--set", "data.kind=\"waves\""});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(unknown.says("Did you mean \"wave\"?")) << unknown.output;
  const Finished of_another = train(1, {"--set", "schedule.gamma=0.5"});
  EXPECT_EQ(of_another.exit_code, 2);
  EXPECT_TRUE(of_another.says("schedule.kind is \"inverse_sqrt\"")) << of_another.output;
}

}  // namespace
}  // namespace lockstep::test
