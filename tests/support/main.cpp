// main() of GoogleTest programs without MPI. Arguments are sources, for example attention_test.cpp:
// only their tests are run, since a program holds those of several CTest entries. Without arguments
// all tests are run. An explicit filter of names takes precedence, but for one that only leaves
// tests out (SLOW of cmake/LockstepTest.cmake).
#include <algorithm>
#include <cstdio>
#include <span>
#include <string>

#include <gtest/gtest.h>

namespace {

/// A filter with the names of all tests in these sources.
std::string tests_in(std::span<char* const> sources) {
  std::string filter;
  const auto& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const auto& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      const std::string file = std::string("/") + test.file();
      if (std::ranges::any_of(sources, [&](const char* source) {
            return file.ends_with(std::string("/") + source);
          })) {
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string& filter = testing::GTEST_FLAG(filter);
  if (argc > 1 && (filter == "*" || filter.starts_with('-'))) {
    // An empty filter would mean all tests.
    filter =
        tests_in({argv + 1, argv + argc}) + "none in these sources" + (filter == "*" ? "" : filter);
  }
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0 &&
      !testing::GTEST_FLAG(list_tests)) {
    std::fprintf(stderr, "no test ran\n");
    return 1;
  }
  return failed;
}
