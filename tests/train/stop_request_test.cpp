#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/elastic.hpp>
#include <lockstep/train/run/elastic_report.hpp>
#include <lockstep/train/run/time_limit.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

constexpr double reached = 1e-9;  // minutes since the start of the process

/// As if `lockstep elastic` had started this process, with a folder.
class UnderSupervisor {
 public:
  explicit UnderSupervisor(const std::string& folder) {
    setenv(ElasticReport::folder_variable, folder.c_str(), 1);
  }
  ~UnderSupervisor() { unsetenv(ElasticReport::folder_variable); }
  UnderSupervisor(const UnderSupervisor&) = delete;
  UnderSupervisor& operator=(const UnderSupervisor&) = delete;
};

nlohmann::json report_in(const test::ScratchFolder& folder) {
  return nlohmann::json::parse(test::read_file(folder.file(ElasticReport::file_name)));
}

// The limit is rank 0's.
TEST(StopRequest, IsKnownToAllRanksInTheSameStepAndStays) {
  run_ranks_as_threads(3, [](ProcessGroup& group) {
    StopRequest stop(group, {.max_minutes = reached});
    EXPECT_EQ(stop.reason(), StopReason::none) << "before anybody asked";
    for (int step = 1; step <= 2; ++step) {
      EXPECT_TRUE(stop.requested(step));
      EXPECT_GE(stop.reason(), StopReason::max_minutes);
    }
    EXPECT_EQ(stop.exit_code(false), 75);
    EXPECT_EQ(stop.exit_code(true), 0) << "the last step was made in time";
  });
}

// Of signals that other tests of this program may have sent, it speaks too.
TEST(StopRequest, IsNoneWhereNobodyAsked) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    StopRequest stop(group);
    EXPECT_EQ(stop.requested(1), requested_stop() != StopReason::none);
    EXPECT_EQ(stop.reason(), requested_stop());
  });
}

TEST(StopRequest, TellsTheSupervisorHowFarItIsAndHowItEnds) {
  for (const bool is_complete : {false, true}) {
    const test::ScratchFolder folder;
    const UnderSupervisor supervised(folder.path());
    run_ranks_as_threads(2, [&](ProcessGroup& group) {
      StopRequest stop(group, {.checkpoints = "snapshots", .max_minutes = reached});
      EXPECT_EQ(report_in(folder).at("completed"), false) << "it is up";
      static_cast<void>(stop.requested(41));
      static_cast<void>(stop.requested(42));
      static_cast<void>(stop.exit_code(is_complete));
    });
    const auto report = report_in(folder);
    EXPECT_EQ(report.at("steps_made"), 2);
    EXPECT_EQ(report.at("step"), 42);
    EXPECT_EQ(report.at("checkpoints"), std::filesystem::absolute("snapshots").string());
    EXPECT_EQ(report.at("completed"), is_complete);
    EXPECT_EQ(report.at("stopped_early"), !is_complete);
    EXPECT_EQ(report.at("stopped_by"), is_complete ? "" : "run.max_minutes");
  }
}

TEST(StopRequest, OfAProgramThatEndsByAnExceptionTellsItsLastStepAndNoEnd) {
  const test::ScratchFolder folder;
  const UnderSupervisor supervised(folder.path());
  EXPECT_THROW(run_ranks_as_threads(1,
                                    [&](ProcessGroup& group) {
                                      StopRequest stop(group);
                                      static_cast<void>(stop.requested(7));
                                      throw Error("as a program may");
                                    }),
               Error);
  EXPECT_EQ(report_in(folder).at("step"), 7);
  EXPECT_EQ(report_in(folder).at("completed"), false);
  EXPECT_EQ(report_in(folder).at("stopped_early"), false);
}

TEST(StopRequest, ThrowsOnAllRanksWhereTheSupervisorsFolderCannotBeWritten) {
  const test::ScratchFolder folder;
  const UnderSupervisor supervised(folder.write("file", "no folder"));
  run_ranks_as_threads(2, [](ProcessGroup& group) { EXPECT_THROW(StopRequest{group}, Error); });
}

TEST(TimeLimit, IsReachedWhereAnotherStepWouldEndBehindIt) {
  const TimeLimit none(0, 0), hour(60 + seconds_since_process_start() / 60, 0);
  EXPECT_EQ(none.reason(1e12), StopReason::none);
  EXPECT_EQ(hour.reason(3500), StopReason::none);
  EXPECT_EQ(hour.reason(3700), StopReason::max_minutes);
}

}  // namespace
}  // namespace lockstep::train
