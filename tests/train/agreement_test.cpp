#include <gtest/gtest.h>

#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/agreement.hpp>

namespace lockstep::train {
namespace {

/// What each rank of three learns from agree(): message and exit code, or nothing.
struct Learned {
  std::string message;
  ExitCode code = ExitCode::done;
};

std::vector<Learned> agree_on_three(const std::function<void(int)>& part) {
  std::vector<Learned> learned(3);
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    auto& mine = learned[static_cast<std::size_t>(group.rank())];
    try {
      agree(group, [&] { part(group.rank()); });
    } catch (const AgreedError& error) {
      mine = {error.what(), error.exit_code()};
    }
  });
  return learned;
}

TEST(Agree, NobodyThrowsWhereNobodyFailed) {
  for (const auto& mine : agree_on_three([](int) {})) EXPECT_EQ(mine.code, ExitCode::done);
}

TEST(Agree, FailureOfOneRankIsThrownOnAllNamingIt) {
  const auto learned = agree_on_three([](int rank) {
    if (rank == 2) throw InputError("no such file");
  });
  for (const auto& mine : learned) {
    EXPECT_EQ(mine.code, ExitCode::bad_input);
    EXPECT_NE(mine.message.find("rank 2 of 3"), std::string::npos) << mine.message;
    EXPECT_NE(mine.message.find("no such file"), std::string::npos) << mine.message;
  }
}

TEST(Agree, FailureThatAllShareIsSaidWithoutARank) {
  for (const auto& mine : agree_on_three([](int) { throw InputError("bad deck"); }))
    EXPECT_EQ(mine.message, "bad deck");
}

TEST(Agree, ExceptionsThatAreNotOursCountToo) {
  for (const auto& mine : agree_on_three([](int rank) {
         if (rank == 0) throw std::bad_alloc();
       })) {
    EXPECT_EQ(mine.code, ExitCode::failure);
    EXPECT_NE(mine.message.find("out of memory"), std::string::npos) << mine.message;
  }
}

}  // namespace
}  // namespace lockstep::train
