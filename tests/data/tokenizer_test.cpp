#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include <lockstep/data/tokens/byte_pairs.hpp>
#include <lockstep/data/tokens/tokenizer.hpp>

#include "idx_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::input_error;
using test::says;
using test::TemporaryFolder;
using Tokens = std::vector<std::uint16_t>;

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

fs::path byte_pairs() {
  const char* sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  return fs::path(sources ? sources : ".") / "tests/data/byte_pairs";
}

TEST(Tokenizer, OfCharactersGoesThereAndBack) {
  const std::string text = "zä€\nä";
  const auto characters = characters_of(text);
  EXPECT_EQ(characters, (std::vector<std::string>{"\n", "z", "ä", "€"}));
  const auto tokenizer = make_tokenizer({.kind = "characters", .characters = characters}, "");
  EXPECT_EQ(tokenizer->vocabulary(), 4);
  EXPECT_EQ(tokenizer->encode(text), (Tokens{1, 2, 3, 0, 2}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_TRUE(says(input_error([&] { return tokenizer->encode("zq"); }),
                   "the character 'q' at byte 1 of the text is not one of the 4"));
  EXPECT_TRUE(
      says(input_error([&] { return characters_of("ab\xff"); }), "byte 2 of the text, 0xff"));
  EXPECT_TRUE(
      says(input_error([&] { return tokenizer->decode(Tokens{4}); }), "token 4 is outside"));
}

TEST(Tokenizer, OfBytesTakesAnything) {
  const auto tokenizer = make_tokenizer({.kind = "bytes"}, "");
  const std::string text(
      "\0\xff"
      "a",
      3);
  EXPECT_EQ(tokenizer->encode(text), (Tokens{0, 255, 97}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_THROW(static_cast<void>(tokenizer->decode(Tokens{256})), InputError);
}

TEST(Tokenizer, ItsChoiceIsKeptInAFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_tokenizer_choice(folder.path()).kind, "");
  write_tokenizer_choice(folder.path(), {.kind = "characters", .characters = {"\n", "\"", "€"}});
  const TokenizerChoice choice = read_tokenizer_choice(folder.path());
  EXPECT_EQ(choice.kind, "characters");
  EXPECT_EQ(choice.characters, (std::vector<std::string>{"\n", "\"", "€"}));
  static_cast<void>(folder.write("tokenizer.json", bytes("[1]")));
  EXPECT_TRUE(says(input_error([&] { return read_tokenizer_choice(folder.path()); }),
                   "does not give the kind"));
  EXPECT_TRUE(says(input_error([&] { return make_tokenizer({.kind = "words"}, ""); }), "'words'"));
}

TEST(Tokenizer, ItsFilesAreNotReadDeeperThanTheyAreNorTwiceTheSameName) {
  const TemporaryFolder folder;
  constexpr std::size_t deep = 100'000;
  const std::string nested = std::string(deep, '[') + std::string(deep, ']');
  const auto vocabulary = [&](const std::string& text) {
    static_cast<void>(folder.write("vocab.json", bytes(text)));
    return input_error([&] { return load_byte_pairs(folder.path()); });
  };
  EXPECT_TRUE(says(vocabulary(nested), "vocab.json is nested deeper than 1 levels"));
  EXPECT_TRUE(says(vocabulary("{\"a\": " + nested + "}"), "nested deeper"));
  EXPECT_TRUE(says(vocabulary("{\"a\": 0, \"b\": 1, \"a\": 1}"), "has the name 'a' twice"));
  static_cast<void>(folder.write("tokenizer.json", bytes("{\"kind\": " + nested + "}")));
  EXPECT_TRUE(says(input_error([&] { return read_tokenizer_choice(folder.path()); }),
                   "tokenizer.json is nested deeper than 2 levels"));
}

TEST(Tokenizer, ItsFilesAreNoPipesAndNoDevices) {
  const TemporaryFolder folder;
  for (const char* name : {"vocab.json", "tokenizer.json"})
    std::filesystem::create_symlink("/dev/zero", folder.path() / name);
  const auto error = [&] { return input_error([&] { return load_byte_pairs(folder.path()); }); };
  EXPECT_TRUE(says(error(), "vocab.json cannot be read: it is a device"));
  EXPECT_TRUE(says(input_error([&] { return read_tokenizer_choice(folder.path()); }),
                   "tokenizer.json cannot be read: it is a device"));
  std::filesystem::remove(folder.path() / "vocab.json");
  static_cast<void>(folder.write("vocab.json", bytes("{\"a\": 0}")));
  ASSERT_EQ(mkfifo((folder.path() / "merges.txt").c_str(), 0600), 0);
  EXPECT_TRUE(says(error(), "merges.txt cannot be read: it is a pipe"));
}

// Compared with Hugging Face's tokenizers (byte_pairs/make.py).
TEST(BytePairs, GiveTheTokensOfTheReference) {
  const auto tokenizer = make_tokenizer({.kind = "gpt2"}, byte_pairs());
  EXPECT_EQ(tokenizer->vocabulary(), 400);
  EXPECT_EQ(tokenizer->end_of_text(), 399);
  std::ifstream file(byte_pairs() / "cases.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 10U);
  for (const auto& item : cases) {
    const auto text = item.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), item.at("tokens").get<Tokens>()) << text;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_EQ(tokenizer->decode(Tokens{399}), "<|endoftext|>");
  const std::string no_text = "a\xff\xfe b";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(no_text)), no_text);
}

TEST(BytePairs, NameTheFaultsOfTheirFiles) {
  const TemporaryFolder folder;
  const auto error = [&] { return input_error([&] { return load_byte_pairs(folder.path()); }); };
  EXPECT_TRUE(says(error(), "needs vocab.json and merges.txt"));
  static_cast<void>(folder.write("vocab.json", bytes("{\"a\": 0")));
  EXPECT_TRUE(says(error(), "vocab.json is not JSON"));
  static_cast<void>(folder.write("vocab.json", bytes("[]")));
  EXPECT_TRUE(says(error(), "is not a list of 1 to 65536 tokens"));
  static_cast<void>(folder.write("vocab.json", bytes("{\"a\": 0, \"b\": 0}")));
  EXPECT_TRUE(says(error(), "token 'b' has number 0"));
  static_cast<void>(folder.write("vocab.json", bytes("{\"a\": 0, \"b\": 1, \"ab\": 2}")));
  static_cast<void>(folder.write("merges.txt", bytes("#version: 0.2\nab\n")));
  EXPECT_TRUE(says(error(), "'ab' is not a pair"));
  static_cast<void>(folder.write("merges.txt", bytes("a c\n")));
  EXPECT_TRUE(says(error(), "has no token 'c'"));
  static_cast<void>(folder.write("merges.txt", bytes("a b\n")));
  EXPECT_TRUE(says(error(), "not a vocabulary of GPT-2's kind")) << "not all bytes are tokens";
}

}  // namespace
}  // namespace lockstep
