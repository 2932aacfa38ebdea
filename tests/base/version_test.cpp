#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <lockstep/base/version.hpp>

namespace lockstep {
namespace {

TEST(Version, IsThreeNumbers) {
  const std::string text = version();
  EXPECT_EQ(std::ranges::count(text, '.'), 2);
  EXPECT_EQ(text.find_first_not_of("0123456789."), std::string::npos) << text;
}

TEST(Version, TheBuildNamesItsCompiler) {
  const auto& info = build_info();
  EXPECT_NE(info.compiler.find_first_of("0123456789"), std::string::npos) << info.compiler;
  EXPECT_EQ(&info, &build_info());
}

}  // namespace
}  // namespace lockstep
