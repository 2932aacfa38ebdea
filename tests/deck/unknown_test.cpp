#include "sample.hpp"

namespace lockstep::test {
namespace {

std::string unread(std::string_view toml) {
  auto deck = Deck::parse(toml, "a.toml");
  (void)deck.read<SampleOptions>("train");
  (void)deck.read<OtherOptions>("optimizer");
  return input_error([&] { deck.check_all_read(); });
}

TEST(DeckUnknown, AKnownDeckPasses) {
  auto deck = Deck::parse("[train]\nlr = 1\n[optimizer]\n", "a.toml");
  (void)deck.read<SampleOptions>("train");
  (void)deck.read<OtherOptions>("optimizer");
  EXPECT_NO_THROW(deck.check_all_read());
}

TEST(DeckUnknown, AnUnreadTableIsAnError) {
  const auto deck = Deck::parse("[train]\nlr = 1\n", "a.toml");
  EXPECT_EQ(input_error([&] { deck.check_all_read(); }),
            "a.toml:1: unknown table [train]. None are known.");
}

TEST(DeckUnknown, AKeyIsAnsweredWithTheNearestOfItsTable) {
  EXPECT_EQ(unread("[train]\n\nepoch = 1\n"),
            "a.toml:3: unknown key train.epoch. Did you mean epochs?");
}

TEST(DeckUnknown, AKeyOfAnotherTableIsSentThere) {
  EXPECT_EQ(unread("[optimizer]\nepochs = 1\n"),
            "a.toml:2: unknown key optimizer.epochs. Did you mean train.epochs?");
  EXPECT_EQ(unread("lr = 1\n"), "a.toml:1: unknown key lr. Did you mean train.lr?");
}

TEST(DeckUnknown, AKeyInNoTableListsTheTables) {
  EXPECT_EQ(unread("warp = 1\n"),
            "a.toml:1: unknown key warp. Keys belong in tables: train, optimizer.");
}

TEST(DeckUnknown, AKeyLikeNoOtherListsTheKnown) {
  EXPECT_EQ(unread("[optimizer]\nwarp = 1\n"),
            "a.toml:2: unknown key optimizer.warp. Known are: momentum.");
}

TEST(DeckUnknown, ATableIsAnsweredWithTheNearest) {
  EXPECT_EQ(unread("[optimiser]\nx = 1\n"),
            "a.toml:1: unknown table [optimiser]. Did you mean optimizer?");
  EXPECT_EQ(unread("[zzz]\n"), "a.toml:1: unknown table [zzz]. Known are: train, optimizer.");
  EXPECT_EQ(unread("[optimizer.sgd]\nx = 1\n").rfind("a.toml:1: unknown table [optimizer.sgd].", 0),
            0U);
}

TEST(DeckUnknown, AllAreListedInOrderOfLines) {
  EXPECT_EQ(unread("[zzz]\n[train]\nz = 1\na = 1\n"),
            "a.toml:1: unknown table [zzz]. Known are: train, optimizer.\n"
            "a.toml:3: unknown key train.z. Known are: lr, clip, timeout, ratio, epochs, shuffle, "
            "dir, backend, pace, sizes, betas, files.\n"
            "a.toml:4: unknown key train.a. Known are: lr, clip, timeout, ratio, epochs, shuffle, "
            "dir, backend, pace, sizes, betas, files.");
}

TEST(DeckUnknown, ALongListIsCut) {
  std::string toml = "[optimizer]\n";
  for (int i = 0; i < 25; ++i) toml += "zzzzz" + std::to_string(i) + " = 1\n";
  const auto message = unread(toml);
  EXPECT_NE(message.find("a.toml:11: "), std::string::npos);
  EXPECT_EQ(message.find("a.toml:12: "), std::string::npos);
  EXPECT_NE(message.find("\nand 15 more."), std::string::npos);
}

TEST(DeckUnknown, AQuotedKeyIsNotTakenForANestedOne) {
  EXPECT_EQ(unread("\"train.lr\" = 1\n").rfind("a.toml:1: unknown key \"train.lr\".", 0), 0U);
  EXPECT_EQ(unread("[\"a b\"]\nx = 1\n").rfind("a.toml:1: unknown table [\"a b\"].", 0), 0U);
}

}  // namespace
}  // namespace lockstep::test
