#include <gtest/gtest.h>

#include <string_view>
#include <type_traits>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

TEST(Error, EachKindCarriesItsExitCode) {
  EXPECT_EQ(Error("x").exit_code(), ExitCode::failure);
  EXPECT_EQ(ShapeError("x").exit_code(), ExitCode::failure);
  EXPECT_EQ(InputError("x").exit_code(), ExitCode::bad_input);
  EXPECT_EQ(CommError("x").exit_code(), ExitCode::communication);
  EXPECT_EQ(TimeoutError("x").exit_code(), ExitCode::communication);
  EXPECT_EQ(CheckpointError("x").exit_code(), ExitCode::checkpoint);
}

TEST(Error, ALongMessageKeepsItsBeginningAndItsEnd) {
  const std::string just(2000, 'x');
  EXPECT_EQ(shortened(just), just);
  for (std::size_t offset = 0; offset < 3; ++offset) {  // characters of several bytes stay whole
    std::string message(offset, 'b');
    for (int i = 0; i < 100'000; ++i) message += "\u20ac";
    message += " the remedy";
    const std::string cut = shortened(message);
    EXPECT_LE(cut.size(), 2000U);
    EXPECT_GE(cut.size(), 1800U);
    const std::size_t mark = cut.find(" ... (");
    EXPECT_EQ((mark - offset) % 3, 0U);
    EXPECT_EQ(cut.substr(0, mark), message.substr(0, mark));
    const std::string end = cut.substr(cut.find(") ... ") + 6);
    EXPECT_TRUE(message.ends_with(end) && end.starts_with("\u20ac") && end.ends_with("remedy"));
  }
}

TEST(Error, ExitCodesAreThoseOfTheCommandLine) {
  EXPECT_EQ(static_cast<int>(ExitCode::done), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::failure), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::bad_input), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::communication), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::checkpoint), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::requeue), 75);
}

TEST(Error, IsCaughtAsAStandardException) {
  try {
    throw TimeoutError("rank 2 never arrived");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "rank 2 never arrived");
  }
  static_assert(std::is_base_of_v<CommError, TimeoutError>);
}

TEST(Error, AFailedAssertionNamesConditionFileAndLine) {
  try {
    detail::assertion_failed("1 == 2", "here.cpp", 12);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::failure);
    EXPECT_EQ(std::string_view(error.what())
                  .find("internal error: 1 == 2 does not hold at "
                        "here.cpp:12."),
              0U);
  }
}

TEST(Error, AssertionsAreCheckedOnlyWithoutNdebug) {
#ifdef NDEBUG
  EXPECT_NO_THROW(LOCKSTEP_ASSERT(1 == 2));
#else
  EXPECT_THROW(LOCKSTEP_ASSERT(1 == 2), Error);
#endif
  EXPECT_NO_THROW(LOCKSTEP_ASSERT(1 == 1));
}

}  // namespace
}  // namespace lockstep
