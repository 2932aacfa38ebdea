#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

// docs/guide/second_derivatives.md: its program is a file, and reaches the page's error.

namespace lockstep::test {
namespace {

TEST(SecondDerivativesPage, HeatEquationIsLearnedFromItsResidualOnAnyNumberOfRanks) {
  const std::string page = read_file(source("docs/guide/second_derivatives.md"));
  EXPECT_NE(page.find("```cpp\n" + read_file(source("docs/examples/heat_residual.cpp")) + "```"),
            std::string::npos)
      << "the page does not hold docs/examples/heat_residual.cpp word for word";
  EXPECT_NE(page.find("relative L2 error 1.5e-03"), std::string::npos);
  for (const int ranks : {1, 2}) {
    const Finished finished = run(app(ranks, "docs/examples/heat_residual", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    std::smatch error;
    ASSERT_TRUE(
        std::regex_search(finished.output, error, std::regex("relative L2 error ([0-9.e+-]+), ")))
        << finished.output;
    EXPECT_LT(std::stod(error[1]), 3e-3) << finished.output;
  }
}

TEST(SecondDerivativesPage, ShowsTheNodeThatTheLibraryHas) {
  const std::string page = read_file(source("docs/guide/second_derivatives.md"));
  const std::string from = "class TanhNode", to = "};\n";
  const auto begin = page.find(from);
  ASSERT_NE(begin, std::string::npos);
  const std::string shown = page.substr(begin, page.find("\n" + to, begin) + 1 - begin);
  EXPECT_NE(read_file(source("src/lockstep/autograd/functional/activation.cpp")).find(shown),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
