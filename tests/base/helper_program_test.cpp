#include <lockstep/base/helper_program.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include <support/process.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/start_program.hpp>

namespace lockstep {
namespace {

using Kind = HelperEnd::Kind;

TEST(HelperProgram, ReturnsItsOutputAndExitStatus) {
  const test::ScratchFolder scratch;
  scratch.write("here", "");
  const HelperOptions there{.folder = scratch.path()};
  const HelperEnd good = run_helper({"sh", "-c", "ls; echo not heard >&2"}, 60, there);
  EXPECT_EQ(good.kind, Kind::good);
  EXPECT_EQ(good.output, "here\n");
  EXPECT_EQ(run_helper({"sh", "-c", "exit 3"}, 60).kind, Kind::failed);
  EXPECT_EQ(run_helper({"sh", "-c", "kill -9 $$"}, 60).kind, Kind::failed);
  EXPECT_EQ(run_helper({"no-such-program"}, 60).kind, Kind::not_started);
  EXPECT_EQ(run_helper({"true"}, 60, {.folder = scratch.file("none")}).kind, Kind::not_started);
  EXPECT_EQ(run_helper({"sh", "-c", "exec >&-; sleep 0.2; exit 3"}, 60).kind, Kind::failed);
}

TEST(HelperProgram, ReturnsItsErrorOutputOnRequest) {
  const HelperOptions with_errors{.with_errors = true};
  EXPECT_EQ(run_helper({"sh", "-c", "echo heard >&2"}, 60, with_errors).output, "heard\n");
}

TEST(HelperProgram, ReportsItsExitCodeWithoutBlocking) {
  HelperProgram late({"sleep", "1000"});
  HelperProgram killed({"sh", "-c", "kill -9 $$"});
  EXPECT_FALSE(late.wait(Seconds(0)));
  EXPECT_TRUE(killed.wait(Seconds(60)));
  EXPECT_EQ(killed.code(), 128 + SIGKILL);
  HelperProgram none({"no-such-program"});
  EXPECT_TRUE(none.wait(Seconds(60)));
  EXPECT_EQ(none.code(), 127);
}

TEST(HelperProgram, IsKnownUntilItWasWaitedFor) {
  int pid = 0, late = 0;
  {
    HelperProgram program({"true"}), sleeps({"sleep", "1000"});
    pid = program.pid();
    late = sleeps.pid();
    EXPECT_TRUE(is_helper_program(pid));
    EXPECT_TRUE(program.wait(Seconds(60)));
    EXPECT_FALSE(is_helper_program(pid));
    EXPECT_TRUE(is_helper_program(late));
  }
  EXPECT_FALSE(is_helper_program(late));
  EXPECT_FALSE(is_helper_program(getpid()));
}

TEST(StartProgram, ReplacesVariablesAndLeavesSignalsAlone) {
  const test::ScratchFolder scratch;
  const Descriptor output(::open(scratch.file("said").c_str(), O_WRONLY | O_CREAT, 0600));
  ::setenv("LOCKSTEP_TEST_VALUE", "old", 1);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const std::string script = "echo $LOCKSTEP_TEST_VALUE; kill -PIPE $$";
  const pid_t pid =
      start_program({"sh", "-c", script},
                    {.environment = {{"LOCKSTEP_TEST_VALUE", "new"}}, .output = output.get()});
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(exit_code_of(status), 128 + SIGPIPE);  // which this process ignores
  EXPECT_EQ(std::signal(SIGPIPE, before), SIG_IGN);
  EXPECT_EQ(test::read_file(scratch.file("said")), "new\n");
}

TEST(HelperProgram, LongOutputIsReadToItsEnd) {
  const HelperEnd end = run_helper({"sh", "-c", "head -c 1000000 /dev/zero; echo end"}, 60);
  EXPECT_EQ(end.kind, Kind::good);
  EXPECT_EQ(end.output, std::string(1000000, '\0') + "end\n");
}

TEST(HelperProgram, IsKilledWithItsChildrenIfItHangs) {
  const test::ScratchFolder scratch;
  const std::string pid = scratch.file("pid");
  const std::string script = "sleep 1000 & echo $! >" + pid + "; echo begun; wait";
  const HelperEnd late = run_helper({"sh", "-c", script}, 0.5);
  EXPECT_EQ(late.kind, Kind::late);
  EXPECT_EQ(late.output, "begun\n");
  const std::string process = "/proc/" + std::to_string(std::stoi(test::read_file(pid)));
  const auto begun = Clock::now();
  const auto lives = [&] {
    const std::string stat = test::read_of_process(process + "/stat");
    return !stat.empty() && stat.find(") Z ") == std::string::npos;
  };
  while (lives() && seconds_since(begun) < 30) continue;
  EXPECT_FALSE(lives());
}

TEST(HelperProgram, IsKilledWhenItsCallerIsStopped) {
  const auto begun = Clock::now();
  std::jthread asking([](const std::stop_token& over) {
    EXPECT_EQ(run_helper({"sleep", "1000"}, 100, {}, over).kind, Kind::late);
  });
  asking.request_stop();
  asking.join();
  EXPECT_LT(seconds_since(begun), 50);
}

}  // namespace
}  // namespace lockstep
