#include <lockstep/train/run/helper_program.hpp>

#include <gtest/gtest.h>

#include <thread>

#include <support/process.hpp>

#include <lockstep/base/clock.hpp>

namespace lockstep::train {
namespace {

using Kind = HelperEnd::Kind;

TEST(HelperProgram, SaysItsOutputAndHowItEnded) {
  const test::ScratchFolder scratch;
  scratch.write("here", "");
  const HelperEnd good = run_helper({"sh", "-c", "ls; echo not heard >&2"}, scratch.path(), 60);
  EXPECT_EQ(good.kind, Kind::good);
  EXPECT_EQ(good.output, "here\n");
  EXPECT_EQ(run_helper({"sh", "-c", "exit 3"}, ".", 60).kind, Kind::failed);
  EXPECT_EQ(run_helper({"sh", "-c", "kill -9 $$"}, ".", 60).kind, Kind::failed);
  EXPECT_EQ(run_helper({"no-such-program"}, ".", 60).kind, Kind::not_started);
  EXPECT_EQ(run_helper({"true"}, scratch.file("none"), 60).kind, Kind::not_started);
  EXPECT_EQ(run_helper({"sh", "-c", "exec >&-; sleep 0.2; exit 3"}, ".", 60).kind, Kind::failed);
}

TEST(HelperProgram, ThatSaysMuchIsReadToItsEnd) {
  const HelperEnd end = run_helper({"sh", "-c", "head -c 1000000 /dev/zero"}, ".", 60);
  EXPECT_EQ(end.kind, Kind::good);
  EXPECT_EQ(end.output, std::string(4096, '\0'));
}

TEST(HelperProgram, ThatHangsIsKilledWithAllThatItStarted) {
  const test::ScratchFolder scratch;
  const std::string pid = scratch.file("pid");
  const std::string script = "sleep 1000 & echo $! >" + pid + "; echo begun; wait";
  const HelperEnd late = run_helper({"sh", "-c", script}, ".", 0.5);
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

TEST(HelperProgram, IsKilledOnceNobodyWantsToKnow) {
  const auto begun = Clock::now();
  std::jthread asking([](const std::stop_token& over) {
    EXPECT_EQ(run_helper({"sleep", "1000"}, ".", 100, over).kind, Kind::late);
  });
  asking.request_stop();
  asking.join();
  EXPECT_LT(seconds_since(begun), 50);
}

}  // namespace
}  // namespace lockstep::train
