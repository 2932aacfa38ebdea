#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/printable.hpp>

namespace lockstep {
namespace {

TEST(Printable, KeepsTextOfAnyLanguageWithItsLinesAndTabs) {
  for (const char* text : {"", "loss 0.5\n\tnext", "Gr\u00fc\u00dfe \u65e5\u672c \U0001F600"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, WritesControlCharactersAndInvalidUtf8AsNumbers) {
  EXPECT_EQ(printable("\x1b[2Jw\r\a\x7f"), "\\x1b[2Jw\\x0d\\x07\\x7f");
  EXPECT_EQ(printable("\u009b31m\u0080\u00a0"), "\\xc2\\x9b31m\\xc2\\x80\u00a0");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Printable, IsHowEachMessageIsShown) {
  EXPECT_EQ(shortened("tensor \x1b[31mw"), "tensor \\x1b[31mw");
}

}  // namespace
}  // namespace lockstep
