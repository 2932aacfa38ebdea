#include <lockstep/base/philox.hpp>

#include "sample.hpp"

namespace lockstep::test {
namespace {

constexpr std::string_view valid = R"(# A deck with one of everything.
[train]
lr = 0.05          # learning rate
clip = inf
timeout = 1.5e2
epochs = 3
shuffle = false
dir = "runs/\u00e4 \"x\""
backend = 'threads'
pace = "fast"
sizes = [4, 0x10,
         6]
betas = [0.5, 1]
files = ["""two
lines""", 'y']

[other.deep]
momentum = -1_000
)";

// Tokens of TOML: random bytes alone rarely get past the first token.
constexpr std::string_view pieces[] = {"[",          "]",
                                       "[[",         "]]",
                                       "{",          "}",
                                       "=",          "\"",
                                       "'",          "\"\"\"",
                                       "'''",        "\\",
                                       "\\u",        "#",
                                       "\n",         "\r",
                                       ".",          ",",
                                       "inf",        "nan",
                                       "-",          "+",
                                       "0x",         "e9",
                                       "true",       "include = [\"a.toml\"]\n",
                                       "1979-05-27", "train",
                                       "lr",         " ",
                                       "\t",         "\xC3\xA4",
                                       "\xFF",       "99999999999999999999"};

std::string mutated(PhiloxSequence& random) {
  std::string text(valid);
  const auto edits = 1 + random.below(6);
  for (std::uint32_t i = 0; i < edits && !text.empty(); ++i) {
    const auto at = random.below(static_cast<std::uint32_t>(text.size()));
    const auto count = 1 + random.below(24);
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, count);
        break;
      case 2:
        text.insert(at, text.substr(random.below(static_cast<std::uint32_t>(text.size())), count));
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.insert(at, pieces[random.below(std::size(pieces))]);
    }
  }
  return text;
}

TEST(DeckMutations, GiveAValidDeckOrAnInputErrorAndNothingElse) {
  PhiloxSequence random(1234, 0);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const auto text = mutated(random);
    try {
      auto deck = Deck::parse(text, "a.toml");
      (void)deck.read<SampleOptions>("train");
      (void)deck.read<OtherOptions>("other.deep");
      deck.check_all_read();
      auto again = Deck::parse(deck.resolved(), "resolved");
      (void)again.read<SampleOptions>("train");
      (void)again.read<OtherOptions>("other.deep");
      EXPECT_EQ(again.resolved(), deck.resolved()) << text;
      ++accepted;
    } catch (const InputError& error) {
      const std::string_view message = error.what();
      EXPECT_TRUE(message.starts_with("a.toml:")) << message << "\nof\n" << text;
      EXPECT_EQ(message.find('\0'), std::string_view::npos);
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);  // otherwise the mutations are too coarse
  EXPECT_GT(refused, 1000);
}

TEST(DeckMutations, OfOverridesGiveAnInputErrorAndNothingElse) {
  PhiloxSequence random(1234, 1);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = "train.dir=\"x\"";
    for (std::uint32_t edit = 1 + random.below(3); edit > 0; --edit) {
      const auto at = random.below(static_cast<std::uint32_t>(text.size() + 1));
      if (random.below(3) == 0) {
        text.erase(at, 1);
      } else {
        text.insert(at, pieces[random.below(std::size(pieces))]);
      }
    }
    try {
      (void)read_sample("", {text});
      ++accepted;
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("--set")) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lockstep::test
