#include <lockstep/base/failure.hpp>

#include <gtest/gtest.h>

#include <new>
#include <system_error>

namespace lockstep {
namespace {

template <class E>
Failure failure_by(const E& error) {
  return failure_of([&] { throw error; }).value();
}

TEST(Failure, IsNoneWhereNothingWasThrown) {
  EXPECT_FALSE(failure_of([] {}));
}

TEST(Failure, KeepsMessageAndExitCode) {
  const Failure failure = failure_by(InputError("no such deck"));
  EXPECT_EQ(failure.message, "no such deck");
  EXPECT_EQ(failure.code, ExitCode::bad_input);
  EXPECT_EQ(failure.kind, FailureKind::other);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure_by(std::runtime_error("theirs")).code, ExitCode::failure);
  EXPECT_EQ(failure_by(7).message, "an exception of unknown type");
}

TEST(Failure, NamesTheRankIfTheErrorDoes) {
  const Failure failure =
      failure_by(ErrorOnRank<TimeoutError>({3, "node12"}, "rank 3 of 8 (node12): no answer"));
  EXPECT_EQ(failure.rank, 3);
  EXPECT_EQ(failure.host, "node12");
  EXPECT_EQ(failure.code, ExitCode::communication);
  EXPECT_EQ(failure_by(CommError("rank 3 is only mentioned")).rank, -1);
}

TEST(Failure, OutOfMemoryIsAKindOfItsOwn) {
  EXPECT_EQ(failure_by(OutOfMemoryError("no memory")).kind, FailureKind::out_of_memory);
  EXPECT_EQ(failure_by(std::bad_alloc()).kind, FailureKind::out_of_memory);
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(failure_by(std::system_error(no_thread)).kind, FailureKind::out_of_memory);
  const auto other = std::make_error_code(std::errc::permission_denied);
  EXPECT_EQ(failure_by(std::system_error(other)).kind, FailureKind::other);
  EXPECT_EQ(failure_by(Error("out of memory, says this text")).kind, FailureKind::other);
}

}  // namespace
}  // namespace lockstep
