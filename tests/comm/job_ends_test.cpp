// The end of a job of two ranks in which one never calls MPI_Finalize: message, exit code, and time
// since the fault.
#include <gtest/gtest.h>

#include <filesystem>

#include <support/process.hpp>

namespace lockstep::test {
namespace {

// Well below the 10 minutes that a group waits for its ranks, however busy the machine.
constexpr double soon_s = 30;

struct End {
  Finished finished;
  double seconds = 0;  ///< from the fault to the end of the job
};

End run_program(const std::string& name) {
  const ScratchFolder scratch;
  const std::string mark = scratch.file("mark");
  End end;
  // Ranks of a busy machine may miss a deadline when they start.
  for (int start = 0; start < 3 && !std::filesystem::exists(mark); ++start) {
    end.finished = run(app(2, "tests/comm/comm_" + name + "_program", {mark}));
  }
  end.seconds = seconds_since_written(mark);
  return end;
}

TEST(JobEnds, OfAThrowBetweenTwoCollectivesIsPromptWithItsMessageAndCode) {
  const auto [finished, seconds] = run_program("failing_rank");
  EXPECT_TRUE(finished.ended_with(2)) << finished.exit_code << ": " << finished.output;
  EXPECT_TRUE(finished.says("the data file of rank 1 is missing")) << finished.output;
  EXPECT_LT(seconds, soon_s);
}

void expect_sentence_at_deadline(const End& end, const std::string& call) {
  const auto& [finished, seconds] = end;
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_TRUE(finished.says(call + " has not returned after 4.0 s: rank 1 (process ") &&
              finished.says(") is stopped (state T)"))
      << finished.output;
  EXPECT_GE(seconds, 0.5);  // the other may have been waiting for a while
  EXPECT_LT(seconds, soon_s);
}

TEST(JobEnds, OfARankStoppedBeforeMpiInitNamesItAtTheDeadline) {
  expect_sentence_at_deadline(run_program("stopped_before_init"), "MPI_Init");
}

TEST(JobEnds, OfARankStoppedBeforeMpiFinalizeNamesItAtTheDeadline) {
  expect_sentence_at_deadline(run_program("stopped_before_finalize"), "MPI_Finalize");
}

}  // namespace
}  // namespace lockstep::test
