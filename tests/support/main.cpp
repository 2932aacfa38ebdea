// main() of GoogleTest programs without MPI. --files=A_test.cpp,B_test.cpp runs the tests of these
// sources: a program holds those of several CTest entries. A filter of names that is given too
// decides alone.
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

constexpr std::string_view files_option = "--files=";

std::vector<std::string> separated_by_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back("/" + part);
  return parts;
}

/// The names of all tests that stand in these sources, as a filter.
std::string tests_in(const std::vector<std::string>& files) {
  std::string filter;
  const auto& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const auto& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      const std::string source = std::string("/") + test.file();
      if (std::ranges::any_of(files, [&](const auto& file) { return source.ends_with(file); })) {
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(files_option)) {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 1;
    }
    if (testing::GTEST_FLAG(filter) == "*") {
      const std::string files(argument.substr(files_option.size()));
      // An empty filter would be all tests.
      testing::GTEST_FLAG(filter) = tests_in(separated_by_commas(files)) + "none in " + files;
    }
  }
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0 &&
      !testing::GTEST_FLAG(list_tests)) {
    std::fprintf(stderr, "no test ran\n");
    return 1;
  }
  return failed;
}
