#include <lockstep/base/hash.hpp>

#include "sample.hpp"

namespace lockstep::test {
namespace {

Deck sample_and_other(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  auto deck = Deck::parse(toml, "a.toml", overrides);
  (void)deck.read<SampleOptions>("train");
  (void)deck.read<OtherOptions>("other.deep");
  (void)deck.read<OtherOptions>("");
  return deck;
}

TEST(DeckResolved, ListsEveryDeclaredKeyInOrderOfDeclaration) {
  EXPECT_EQ(
      sample_and_other("[train]\nepochs = 2\nlr = 1\nsizes = []", {"train.dir='a\"b'"}).resolved(),
      R"(momentum = 0

[train]
lr = 1.0
clip = inf
timeout = 30.0
ratio = 0.5
epochs = 2
shuffle = true
dir = "a\"b"
backend = "mpi"
pace = "slow"
sizes = []
betas = [0.9, 0.999]
files = []

[other.deep]
momentum = 0
)");
}

TEST(DeckResolved, HoldsDerivedValuesInPlaceOfTheDecks) {
  auto deck = Deck::parse("[train]\nsizes = []\nlr = 0.5", "a.toml");
  auto options = deck.read<SampleOptions>("train");
  options.sizes = {7, 8};
  options.pace = Pace::fast;
  deck.record("train", options);
  EXPECT_NE(deck.resolved().find("\nsizes = [7, 8]\n"), std::string::npos) << deck.resolved();
  EXPECT_NE(deck.resolved().find("\npace = \"fast\"\n"), std::string::npos);
  EXPECT_NE(deck.resolved().find("\nlr = 0.5\n"), std::string::npos);
  auto again = Deck::parse(deck.resolved(), "b.toml");
  EXPECT_EQ(again.read<SampleOptions>("train").sizes, (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(again.hash(), deck.hash());
  EXPECT_THROW(deck.record("other", OtherOptions{}), Error) << "it was not read";
}

TEST(DeckResolved, ReadBackGivesTheSame) {
  for (const std::string toml :
       {"", "[train]\nlr = 1e-300\nratio = -0.0\nclip = 1e300",
        "[train]\nlr = 0.1\nratio = 123456789012345678\nepochs = 7\nbetas = [0.1, 1, 1e-9]",
        "momentum = -9223372036854775808\n[train]\npace = \"fast\"\nsizes = [9223372036854775807]",
        R"([train]
dir = "tab\t line\n cr\r quote\" back\\ bell\u0007 del\u007f \u00e4 \U0001F600"
files = ["", "a, b", "[c]", "# d"])"}) {
    const auto first = sample_and_other(toml).resolved();
    const auto second = sample_and_other(first);
    EXPECT_EQ(second.resolved(), first);
    EXPECT_NO_THROW(second.check_all_read());
  }
}

TEST(DeckResolved, DoublesKeepTheirBits) {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.0, 1e22}) {
    SampleOptions options;
    options.lr = value;
    auto deck = Deck::parse("", "a.toml");
    (void)deck.read<SampleOptions>("train", options);
    EXPECT_EQ(read_sample(deck.resolved()).lr, value);
  }
}

TEST(DeckResolved, AKeyReadTwiceAppearsOnce) {
  auto deck = Deck::parse("", "a.toml");
  (void)deck.read<OtherOptions>("x");
  (void)deck.read<OtherOptions>("x");
  EXPECT_EQ(deck.resolved(), "[x]\nmomentum = 0\n");
}

TEST(DeckResolved, HashIsThatOfTheTextAndSpellingDoesNotCount) {
  const auto deck = sample_and_other("[train]\nlr = 1\n");
  const auto text = deck.resolved();
  EXPECT_EQ(deck.hash(), to_hex(hash64(text.data(), text.size())));
  EXPECT_EQ(deck.hash(), sample_and_other("train = {lr = 1.0}  # same").hash());
  EXPECT_NE(deck.hash(), sample_and_other("train.lr = 2").hash());
}

}  // namespace
}  // namespace lockstep::test
