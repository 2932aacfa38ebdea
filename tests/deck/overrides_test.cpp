#include "sample.hpp"

namespace lockstep::test {
namespace {

TEST(DeckOverrides, WinOverTheDeckAndTheLastWins) {
  EXPECT_EQ(read_sample("train.epochs = 5", {"train.epochs=6"}).epochs, 6);
  EXPECT_EQ(read_sample("train.epochs = 5", {"train.epochs=6", "train.epochs=7"}).epochs, 7);
}

TEST(DeckOverrides, TakeAnyTomlValue) {
  EXPECT_EQ(read_sample("", {"train.dir=\"runs/y\""}).dir, "runs/y");
  EXPECT_EQ(read_sample("", {"train.dir='a=b'"}).dir, "a=b");
  EXPECT_EQ(read_sample("", {"train.dir=\"\""}).dir, "");
  EXPECT_EQ(read_sample("", {"train.sizes=[3]"}).sizes, std::vector<std::int64_t>{3});
  EXPECT_FALSE(read_sample("", {" train.shuffle = false "}).shuffle);
}

TEST(DeckOverrides, KeepTheOtherKeysOfTheirTable) {
  const auto options = read_sample("[train]\nlr = 2\nepochs = 3", {"train={epochs=4}"});
  EXPECT_EQ(options.lr, 2);
  EXPECT_EQ(options.epochs, 4);
}

TEST(DeckOverrides, ABareWordIsToldToUseQuotes) {
  EXPECT_EQ(error_of("", {"train.dir=runs/x"}),
            "--set train.dir=runs/x: the value is not valid TOML. Strings need quotes that the "
            "shell leaves alone: --set 'train.dir=\"runs/x\"'");
  EXPECT_NE(error_of("", {"train.dir=2runs"}).find("--set 'train.dir=\"2runs\"'"),
            std::string::npos);
  EXPECT_NE(error_of("", {"train.dir=/a b/c"}).find("--set 'train.dir=\"/a b/c\"'"),
            std::string::npos);
}

TEST(DeckOverrides, ACapitalisedBooleanIsToldItsSpelling) {
  EXPECT_NE(error_of("", {"train.shuffle=False"}).find("--set 'train.shuffle=false'"),
            std::string::npos);
}

TEST(DeckOverrides, AreCheckedLikeTheDeck) {
  EXPECT_EQ(error_of("", {"train.lr=-1"}).rfind("--set: train.lr = -1 is out of range", 0), 0U);
  EXPECT_EQ(error_of("", {"train.epochs=1.5"}).rfind("--set: train.epochs = 1.5 is a number", 0),
            0U);
  auto deck = Deck::parse("", "a.toml", {"train.epoch=1"});
  (void)deck.read<SampleOptions>("train");
  EXPECT_EQ(input_error([&] { deck.check_all_read(); }),
            "--set: unknown key train.epoch. Did you mean epochs?");
}

TEST(DeckOverrides, WithoutKeyOrValueAreRefused) {
  for (const std::string text : {"", "train.epochs", "=1", "[train]\nepochs=1"}) {
    EXPECT_EQ(error_of("", {text}).rfind("--set " + text.substr(0, 60) + " is not of the form", 0),
              0U);
  }
  EXPECT_EQ(error_of("", {"train.dir="}),
            "--set train.dir= has no value. Write one, or for an empty string --set "
            "'train.dir=\"\"'.");
  EXPECT_NE(error_of("", {"# a=1"}).find("sets nothing"), std::string::npos);
}

TEST(DeckOverrides, ThatAreNoTomlAreRefused) {
  EXPECT_NE(error_of("", {"train..lr=1"}).find("--set: \"train..lr=1\" is not valid TOML"),
            std::string::npos);
  EXPECT_NE(error_of("", {"train.epochs=99999999999999999999"}).find("Whole numbers lie between"),
            std::string::npos);
  EXPECT_NE(error_of("", {"train.dir=\"x"}).find("is not valid TOML"), std::string::npos);
  EXPECT_NE(error_of("", {"train.dir=\xFF"}).find("is not UTF-8 text"), std::string::npos);
}

TEST(DeckOverrides, CannotInclude) {
  EXPECT_NE(error_of("", {"include=[\"b.toml\"]"}).find("--set cannot include decks"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
