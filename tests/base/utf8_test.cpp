#include <lockstep/base/utf8.hpp>

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

/// The bytes of a code point by the definition of UTF-8, well formed or not.
std::string bytes_of(char32_t code, int bytes) {
  if (bytes == 1) return {static_cast<char>(code)};
  std::string text;
  for (int i = 1; i < bytes; ++i) {
    text.insert(text.begin(), static_cast<char>(0x80U | (code & 0x3FU)));
    code >>= 6U;
  }
  const unsigned lead = bytes == 2 ? 0xC0U : bytes == 3 ? 0xE0U : 0xF0U;
  text.insert(text.begin(), static_cast<char>(lead | code));
  return text;
}

int shortest(char32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

TEST(Utf8, EveryCodePointIsAcceptedInItsShortestFormOnly) {
  for (char32_t code = 0; code < 0x120000; ++code) {
    const bool exists = code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
    for (int bytes = shortest(code); bytes <= 4; ++bytes) {
      const Utf8Character found = utf8_character(bytes_of(code, bytes) + "x");
      const bool good = exists && bytes == shortest(code);
      ASSERT_EQ(found.bytes, good ? bytes : 0) << std::hex << static_cast<unsigned>(code);
      if (good) {
        ASSERT_EQ(found.code, code);
      }
    }
  }
}

TEST(Utf8, TruncatedCharactersAreRejected) {
  for (const char32_t code : {U'\u00e4', U'\u20ac', U'\U0001f600'}) {
    const std::string whole = bytes_of(code, shortest(code));
    for (std::size_t length = 1; length < whole.size(); ++length) {
      EXPECT_EQ(utf8_character(whole.substr(0, length)).bytes, 0);
      EXPECT_EQ(utf8_character(whole.substr(0, length) + "xxx").bytes, 0);
    }
    EXPECT_EQ(utf8_character(whole.substr(1)).bytes, 0) << "it does not begin there";
  }
}

TEST(Utf8, FiveByteAndLoneContinuationBytesAreRejected) {
  for (const char* bad : {"\x80", "\xf8\x88\x80\x80\x80", "\xff"})
    EXPECT_EQ(utf8_character(bad).bytes, 0) << bad;
}

TEST(Utf8, EachCharacterIsVisitedWhereItBegins) {
  std::string places;
  for_each_utf8_character(
      "a\xc3\xa4\xe2\x82\xac"
      "b",
      [&](const Utf8Character& c, std::size_t at) {
        places += std::to_string(at) + ":" + std::to_string(c.bytes) + " ";
      });
  EXPECT_EQ(places, "0:1 1:2 3:3 6:1 ");
}

}  // namespace
}  // namespace lockstep
