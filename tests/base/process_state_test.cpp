#include <lockstep/base/process_state.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include <lockstep/base/start_program.hpp>

namespace lockstep {
namespace {

TEST(ProcessState, OfAProcessKnowsParentVariablesAndEnd) {
  const int pid = start_program({"sleep", "1000"}, {.environment = {{"LOCKSTEP_MARK", "a = b"}}});
  ASSERT_GT(pid, 0);
  EXPECT_EQ(parent_of(pid), getpid());
  // The program has its environment only once it has taken the place of this one's copy.
  for (int i = 0; i < 1000 && variable_of(pid, "LOCKSTEP_MARK").empty(); ++i) usleep(10'000);
  EXPECT_EQ(variable_of(pid, "LOCKSTEP_MARK"), "a = b");
  EXPECT_EQ(variable_of(pid, "LOCKSTEP_MAR"), "");
  const auto all = [] {
    std::set<int> pids;
    for_each_process([&](int one) { EXPECT_TRUE(pids.insert(one).second); });
    return pids;
  };
  EXPECT_TRUE(all().contains(pid));
  EXPECT_TRUE(all().contains(getpid()));
  kill(pid, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_state(pid), ProcessState::died);
  EXPECT_EQ(parent_of(pid), getpid());
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ(process_state(pid), ProcessState::gone);
  EXPECT_EQ(parent_of(pid), 0);
  EXPECT_EQ(variable_of(pid, "LOCKSTEP_MARK"), "");
}

}  // namespace
}  // namespace lockstep
