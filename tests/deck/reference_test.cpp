#include "sample.hpp"

namespace lockstep::test {
namespace {

TEST(DeckReference, HasASectionATableAndARowAKey) {
  DeckReference reference;
  reference.add<SampleOptions>("train", "The training loop.");
  reference.add<OtherOptions>("", "Everything else.");
  EXPECT_EQ(reference.markdown(), R"(## `[train]`

The training loop.

| key | type | unit | default | range | meaning |
|---|---|---|---|---|---|
| `lr` | number | | `0.01` | above 0 | learning rate |
| `clip` | number | | `inf` | at least 0 | largest gradient norm |
| `timeout` | number | s | `30.0` | at least 0.5 and at most 3600 | longest wait |
| `ratio` | number | | `0.5` | | share of samples |
| `epochs` | integer | | `10` | at least 1 and at most 1000 | passes over the data |
| `shuffle` | boolean | | `true` | | new order each epoch |
| `dir` | string | | `"runs/x"` | | run folder |
| `backend` | string | | `"mpi"` | one of "mpi", "threads" | what carries data |
| `pace` | string | | `"slow"` | one of "slow", "fast" | how fast |
| `sizes` | list of integers | | `[1, 2]` | at least 1 | layer widths |
| `betas` | list of numbers | | `[0.9, 0.999]` | at least 0 and at most 1 | decay \| rates |
| `files` | list of strings | | `[]` | | inputs |

## Top level

Everything else.

| key | type | default | meaning |
|---|---|---|---|
| `momentum` | integer | `0` | of the other table |
)");
}

TEST(DeckReference, AsADeckItSetsTheGivenKeysAndShowsTheRestCommentedOut) {
  DeckReference reference;
  reference.add<SampleOptions>("train", "The training loop.");
  const std::string text = reference.commented_deck({{"train.epochs", "7"}});
  EXPECT_NE(text.find("\n[train]  # The training loop.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nepochs = 7 "), std::string::npos) << text;
  EXPECT_NE(text.find("\n#lr = 0.01 "), std::string::npos) << text;
  EXPECT_NE(text.find("# longest wait [s]; at least 0.5"), std::string::npos) << text;
  auto deck = Deck::parse(text, "new.toml");
  EXPECT_EQ(deck.read<SampleOptions>("train").epochs, 7);
  EXPECT_NO_THROW(deck.check_all_read());
  EXPECT_THROW(static_cast<void>(reference.commented_deck({{"train.epoch", "7"}})), Error);
}

struct FittingOptions {
  double smoothing = 0.0;
  bool shuffle = true;
};
void declare(DeckTable& table, FittingOptions& options) {
  table.key("smoothing", options.smoothing, {.doc = "classify only: share of each target"});
  table.key("shuffle", options.shuffle, {.doc = "new order each epoch"});
}

TEST(DeckReference, AKeyThatOneProgramOrKindHasSaysSoInAColumnAndInADeckToBeginWith) {
  DeckReference reference;
  reference.add<FittingOptions>("loss", "The loss.");
  EXPECT_EQ(reference.markdown(), R"(## `[loss]`

The loss.

| key | type | default | only with | meaning |
|---|---|---|---|---|
| `smoothing` | number | `0.0` | classify | share of each target |
| `shuffle` | boolean | `true` | | new order each epoch |
)");
  const std::string text = reference.commented_deck({});
  EXPECT_NE(text.find("# classify only: share of each target\n"), std::string::npos) << text;
}

TEST(DeckReference, TwoComponentsMayShareATable) {
  DeckReference reference;
  reference.add<OtherOptions>("x", "One.");
  reference.add<OtherOptions>("x", "Two.");
  const auto text = reference.markdown();
  EXPECT_NE(text.find("One. Two."), std::string::npos);
  EXPECT_EQ(text.find("## `[x]`"), text.rfind("## `[x]`"));
}

}  // namespace
}  // namespace lockstep::test
