#include <lockstep/base/text_lines.hpp>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Lines = std::pair<std::string, std::string>;

TEST(FirstDifferingLines, AreGivenAndAMissingLineIsNothingMore) {
  EXPECT_EQ(first_differing_lines("a\nb\nc\n", "a\nx\nc\n"), Lines("b", "x"));
  EXPECT_EQ(first_differing_lines("a\nb\n", "a\n"), Lines("b", "nothing more"));
  EXPECT_EQ(first_differing_lines("", "a\n"), Lines("nothing more", "a"));
  EXPECT_EQ(first_differing_lines("a\n", "a\n"), Lines("nothing more", "nothing more"));
}

}  // namespace
}  // namespace lockstep
