#include "sample.hpp"

namespace lockstep::test {
namespace {

TEST(DeckSyntax, ADuplicateKeyNamesBothLines) {
  EXPECT_EQ(error_of("[train]\nlr = 1\nepochs = 2\nlr = 3\n"),
            "a.toml:4: train.lr is given twice; the first is on line 2. Keep one of them.");
  EXPECT_EQ(error_of("x = 1\nx = 1\n"),
            "a.toml:2: x is given twice; the first is on line 1. Keep one of them.");
}

TEST(DeckSyntax, ADuplicateOnOneLineIsSaid) {
  EXPECT_EQ(error_of("x = {a = 1, a = 2}\n").rfind("a.toml:1: a is given twice", 0), 0U);
}

TEST(DeckSyntax, TheSameKeyInAnotherTableIsNotTheFirst) {
  EXPECT_EQ(error_of("[a]\nlr = 1\n[b]\nlr = 1\n\nlr = 1\n"),
            "a.toml:6: b.lr is given twice; the first is on line 4. Keep one of them.");
}

TEST(DeckSyntax, ADuplicateTableNamesBothLines) {
  EXPECT_EQ(error_of("[train]\nlr = 1\n[other]\n[train]\nepochs = 1\n"),
            "a.toml:4: the table [train] is given twice; the first is on line 1. Keep one header "
            "and write all of its keys below that.");
}

TEST(DeckSyntax, AStringWithoutQuotesIsShownWithThem) {
  EXPECT_EQ(error_of("[train]\ndir = runs/x # here\n"),
            "a.toml:2: \"dir = runs/x # here\" is not valid TOML (could not determine value type). "
            "Strings need quotes, and booleans are true or false; write dir = \"runs/x\"");
  EXPECT_NE(error_of("train.shuffle = True\n").find("write train.shuffle = true"),
            std::string::npos);
}

TEST(DeckSyntax, ANumberThatTomlWritesOtherwiseIsShownInItsSpelling) {
  const auto expect_shown = [](const std::string& word, const std::string& number) {
    const std::string message = error_of("[train]\nlr=" + word + " # here\n");
    EXPECT_TRUE(message.ends_with(" TOML writes that number so: lr = " + number)) << message;
    EXPECT_EQ(read_sample("train.lr = " + number).lr, std::stod(word));
  };
  expect_shown(".1", "0.1");
  expect_shown("1.", "1.0");
  expect_shown("+.5", "0.5");
  expect_shown("007", "7");
  expect_shown("1.e-3", "0.001");
  const std::string override = error_of("", {"train.lr=.1"});
  EXPECT_TRUE(override.ends_with("train.lr = 0.1")) << override;
  const std::string of_key = error_of("[train]\nl r = 1.50\n");
  EXPECT_NE(of_key.find("A deck has lines"), std::string::npos) << "the key is what is wrong";
}

TEST(DeckSyntax, AnIntegerBeyond64BitsIsRefused) {
  EXPECT_EQ(
      error_of("[train]\nepochs = 9223372036854775808\n"),
      "a.toml:2: \"epochs = 9223372036854775808\" is not valid TOML ('9223372036854775808' is "
      "not representable in 64 bits). Whole numbers lie between -9223372036854775808 and "
      "9223372036854775807.");
}

TEST(DeckSyntax, TheLineIsShownWithAnExample) {
  EXPECT_EQ(
      error_of("[train]\n\nlr: 3\n"),
      "a.toml:3: \"lr: 3\" is not valid TOML (expected '=', saw ':'). A deck has lines `key = "
      "value` below lines [table].");
}

TEST(DeckSyntax, AValueAndATableOfOneNameAreRefused) {
  EXPECT_EQ(error_of("train = 1\n[train]\nlr = 1\n").rfind("a.toml:2: ", 0), 0U);
}

TEST(DeckSyntax, NestingIsBounded) {
  std::string key = "a";
  for (int i = 0; i < 1000000; ++i) key += ".a";
  const auto message = error_of("\n" + key + " = 1\n");
  EXPECT_EQ(message, "a.toml:2: a key has more than 32 parts. Use shorter keys.");
  EXPECT_NE(error_of("[" + key + "]\n").find("more than 32 parts"), std::string::npos);
  EXPECT_NE(error_of("a = " + std::string(1000000, '[') + "\n"), "");
  EXPECT_NE(error_of("", {key + "=1"}).find("--set: a key has more than 32 parts"),
            std::string::npos);
}

TEST(DeckSyntax, QuotesAtTheEndOfALongStringDoNotHideTheNextKey) {
  std::string key = "a";
  for (int i = 0; i < 40; ++i) key += ".a";
  for (const std::string quotes : {"", "\"", "\"\""}) {
    EXPECT_NE(error_of("x = {s = \"\"\"a\"\"\"" + quotes + ", " + key + " = 1}").find("32 parts"),
              std::string::npos);
  }
}

TEST(DeckSyntax, CharactersBeyondAsciiAreLegalInStringsAndCommentsOnly) {
  // They include characters that other formats take for white space or line ends, and a string that
  // continues in the next line with such a character.
  for (const std::string_view text : {"\xC3\xA4", "\xC2\x85", "\xE2\x80\xA8", "\xC2\xA0",
                                      "\xE3\x80\x80", "\xF4\x8F\xBF\xBD", "\xCE\xBB = 1"}) {
    const std::string x(text);
    EXPECT_EQ(read_sample("# " + x + "\ntrain.dir = \"" + x + "\"").dir, x);
    EXPECT_EQ(read_sample("train.dir = '" + x + "'").dir, x);
    EXPECT_EQ(read_sample("train.dir = \"\"\"a\\\n  " + x + "\"\"\"").dir, "a" + x);
    EXPECT_NE(error_of("[train]\n" + x + " = 1").find("a.toml:2: \"" + x), std::string::npos);
    EXPECT_NE(error_of("train.lr = " + x).find("is not valid TOML"), std::string::npos);
    EXPECT_NE(error_of("[train" + x + "]").find("is not valid TOML"), std::string::npos);
  }
  EXPECT_EQ(read_sample("train.dir = \"\\u00E4\"").dir, "\xC3\xA4");
  EXPECT_EQ(error_of("\ntrain.dir = \"\\U0010FFC3\""),
            "a.toml:2: escapes of the private characters from U+10FF00 on are not supported. Write "
            "the character itself.");
}

TEST(DeckSyntax, AHeaderWithoutANameIsRefused) {
  for (const std::string text : {"[", "[=", "[]", "[[", "[[=]]", "[ #", "[.a]", "[a.]", "[\n]"}) {
    EXPECT_EQ(error_of(text).rfind("a.toml:1: ", 0), 0U) << text;
  }
}

TEST(DeckSyntax, DotsInTextAndNumbersAreNoNesting) {
  std::string dots(100, '.');
  EXPECT_EQ(read_sample("# " + dots + "\n[train]\ndir = \"\\\"" + dots + "\"\n").dir, "\"" + dots);
  std::string list;
  for (int i = 0; i < 100; ++i) list += "0.5,";
  EXPECT_EQ(read_sample("train.betas = [" + list + "]").betas.size(), 100U);
  EXPECT_EQ(read_sample("[train]\ndir = '''\n" + dots + "'x'\n" + dots + "'''\n").dir,
            dots + "'x'\n" + dots);
}

}  // namespace
}  // namespace lockstep::test
