// Faults of a launch on synthetic machines: each finding, and no finding for healthy launches. For
// the same faults on real processes see tests/apps/doctor_test.cpp and tests/slurm.
#include <lockstep/train/launch/launch.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include <lockstep/comm/packed.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/launch/checks.hpp>
#include <lockstep/train/launch/links.hpp>
#include <lockstep/train/launch/shared_folder.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

RankInfo info_on(const std::string& host, std::vector<int> cores) {
  return {.host = host,
          .cores = std::move(cores),
          .thread_level = "MPI_THREAD_MULTIPLE",
          .version = "1",
          .program = "p",
          .deck = "d",
          .processor = "avx2"};
}

/// Two machines of two ranks, each rank bound to a core of its own.
std::vector<RankInfo> healthy() {
  return {info_on("a", {0}), info_on("a", {1}), info_on("b", {0}), info_on("b", {1})};
}

void expect_one(const Findings& findings, const std::string& about, Finding::Severity severity,
                const std::vector<std::string>& words) {
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].about, about);
  EXPECT_EQ(findings[0].severity, severity);
  EXPECT_FALSE(findings[0].remedy.empty());
  for (const std::string& word : words) {
    EXPECT_NE(findings[0].text().find(word), std::string::npos)
        << word << " is missing in: " << findings[0].text();
  }
}

TEST(Launch, HealthyOneHasNoFindings) { EXPECT_TRUE(check_launch(make_launch(healthy())).empty()); }

TEST(Launch, BatchOfFewerSamplesThanRanksIsAWarning) {
  expect_one(
      check_batch_size(2, 5), "batch size", Finding::Severity::warning,
      {"train.batch_size = 2 is less than the 5 ranks: 3 of them have no sample in any step. "
       "Use a larger batch, or fewer ranks."});
  expect_one(check_batch_size(4, 5), "batch size", Finding::Severity::warning,
             {"1 of them has no sample"});
  EXPECT_TRUE(check_batch_size(5, 5).empty());
}

TEST(Launch, SeatTravelsWhole) {
  auto info = local_rank_info("abc");
  EXPECT_FALSE(info.host.empty());
  EXPECT_FALSE(info.cores.empty());
  EXPECT_EQ(info.program.size(), 16U);
  EXPECT_GE(info.shm_mib, info.shm_free_mib);
  const std::string bytes = packed(info);
  EXPECT_EQ(packed(unpacked<RankInfo>(bytes)), bytes);
  EXPECT_EQ(unpacked<RankInfo>(packed(RankInfo{.host = "no\xff"})).host, "no\xff");
}

TEST(Launch, CoreListIsInTasksetsNotation) {
  EXPECT_EQ(core_list({}), "");
  EXPECT_EQ(core_list({3}), "3");
  EXPECT_EQ(core_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(Launch, RankOwnsItsShareOfTheMaskAndAtLeastOneCore) {
  const auto launch = make_launch({info_on("a", {0, 1, 2, 3}), info_on("a", {0, 1, 2, 3}),
                                   info_on("a", {4}), info_on("a", {4}), info_on("b", {4})});
  EXPECT_EQ(launch.cores_owned(1), 2);
  EXPECT_EQ(launch.cores_owned(3), 1);
  EXPECT_EQ(launch.cores_owned(4), 1);
}

TEST(Cores, MoreRanksThanCoresOfOneMachine) {
  auto infos = healthy();
  infos[1].cores = {0};
  expect_one(check_cores(make_launch(infos)), "cores", Finding::Severity::warning,
             {"2 ranks share 1 core(s) on a (0)", "--cpus-per-task"});
}

TEST(Cores, CrowdInsideALargerMaskOfAnotherRank) {
  // Rank 0 is not bound, but ranks 1 and 2 share one core.
  expect_one(
      check_cores(make_launch({info_on("a", {0, 1, 2, 3}), info_on("a", {2}), info_on("a", {2})})),
      "cores", Finding::Severity::warning, {"2 ranks share 1 core(s)"});
}

TEST(Cores, MasksThatOverlapInPart) {
  const auto on = [](std::vector<int> cores) { return info_on("a", std::move(cores)); };
  EXPECT_TRUE(check_cores(make_launch({on({0, 1}), on({1, 2}), on({0, 2})})).empty());
  expect_one(check_cores(make_launch({on({0, 1}), on({1, 2}), on({0, 2}), on({0, 1})})), "cores",
             Finding::Severity::warning, {"4 ranks share 3 core(s)"});
}

TEST(Gpus, TwoRanksOfOneMachineOnOneDevice) {
  auto infos = healthy();
  for (RankInfo& info : infos) info.gpu = "0000:01:00.0";
  infos[3].gpu = "0000:02:00.0";  // machine b is healthy: the same address there is another GPU
  expect_one(check_gpus(make_launch(infos)), "gpu", Finding::Severity::warning,
             {"ranks 0, 1", "0000:01:00.0 of a", "--gpus-per-task=1"});
}

TEST(ThreadLevel, BelowMultiple) {
  auto infos = healthy();
  infos[2].thread_level = "MPI_THREAD_FUNNELED";
  expect_one(check_thread_level(make_launch(infos)), "thread level", Finding::Severity::warning,
             {"rank 2 (b)", "MPI_THREAD_FUNNELED", "MPI_Init_thread"});
}

TEST(SameEverywhere, EachDifferenceNamesARank) {
  using enum Finding::Severity;
  const auto with = [](std::string RankInfo::*field) {
    auto infos = healthy();
    infos[2].*field = infos[3].*field = "other";
    return check_same_everywhere(make_launch(infos));
  };
  const std::vector<std::string> words{"rank 2 (b) has other", "1 more"};
  expect_one(with(&RankInfo::version), "version", error, words);
  expect_one(with(&RankInfo::program), "program", error, words);
  expect_one(with(&RankInfo::deck), "deck", error, words);
  expect_one(with(&RankInfo::processor), "processors", warning, words);
}

TEST(SharedMemory, OfAMachineIsComparedWithAllItsRanks) {
  auto infos = healthy();
  for (RankInfo& info : infos) info.shm_mib = info.shm_free_mib = 64;
  EXPECT_TRUE(check_shared_memory(make_launch(infos), std::size_t{32} << 20).empty());
  infos[2].shm_free_mib = 63;
  expect_one(check_shared_memory(make_launch(infos), std::size_t{32} << 20), "/dev/shm",
             Finding::Severity::warning,
             {"on b", "63.0 MiB free of 64.0", "64.0 MiB", "--shm-size"});
}

/// An environment variable for the length of a test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST(WorldOfOne, EachLauncherHasItsRemedy) {
  const auto alone = make_launch({info_on("a", {0})});
  EXPECT_TRUE(check_world_of_one(alone, "MPICH").empty());
  for (const auto& [variable, remedy] :
       {std::pair("SLURM_STEP_NUM_TASKS", "srun --mpi=pmi2"), std::pair("PMI_SIZE", "mpiexec"),
        std::pair("OMPI_COMM_WORLD_SIZE", "LOCKSTEP_MPI=openmpi")}) {
    const Environment started(variable, "4");
    expect_one(check_world_of_one(alone, "MPICH 4"), "world of one", Finding::Severity::error,
               {variable, "4 processes", remedy, "MPICH 4"});
    EXPECT_TRUE(check_world_of_one(make_launch(healthy()), "MPICH").empty());
  }
}

TEST(WorldOfOne, MpiexecOfOneInsideAStepOfSeveralIsMeant) {
  const Environment step("SLURM_STEP_NUM_TASKS", "4");
  const Environment alone("PMI_SIZE", "1");
  EXPECT_TRUE(check_world_of_one(make_launch({info_on("a", {0})}), "MPICH").empty());
}

TEST(WorldOfOne, TheLauncherNearestToAProcessSaysHowManyItStarted) {
  EXPECT_EQ(processes_started(), 1);
  const Environment step("SLURM_STEP_NUM_TASKS", "4");
  EXPECT_EQ(processes_started(), 4);
  const Environment alone("PMI_SIZE", "1");
  EXPECT_EQ(processes_started(), 1);
}

TEST(SharedMemory, IsNothingThatThreadsOfOneProcessNeed) {
  auto infos = healthy();
  for (RankInfo& info : infos) info.host = "a";
  const auto full = [&] { return check_shared_memory(make_launch(infos), std::size_t{1} << 20); };
  EXPECT_EQ(full().size(), 1U) << "four processes";
  for (RankInfo& info : infos) info.pid = 7;
  EXPECT_TRUE(make_launch(infos).is_one_process());
  EXPECT_TRUE(full().empty());
  infos[3].host = "b";
  EXPECT_FALSE(make_launch(infos).is_one_process()) << "a pid counts on its machine only";
}

TEST(Links, SlowOneBetweenMachinesIsNamed) {
  const NodeLayout layout({"a", "b", "c", "d", "e"});
  std::vector<Link> links{{0, 1, 2, 10}, {1, 2, 2.5, 9}, {2, 3, 2, 1.25}, {3, 4, 2, 10}};
  expect_one(check_links(links, layout), "links", Finding::Severity::warning,
             {"rank 2 (c) to rank 3 (d)", "1.25 GB/s", "between machines is 2.0 us and 10.00",
              "--exclude"});
  links[2] = {2, 3, 90, 10};
  expect_one(check_links(links, layout), "links", Finding::Severity::warning, {"90.0 us"});
}

TEST(Links, AreComparedWithTheirKindOnly) {
  // Ten times slower between machines than within: that is normal.
  const NodeLayout layout({"a", "a", "b", "b", "c", "c", "d", "d"});
  std::vector<Link> links;
  for (int from = 0; from < 7; ++from) {
    links.push_back(from % 2 == 0 ? Link{from, from + 1, 0.5, 10} : Link{from, from + 1, 50, 0.1});
  }
  EXPECT_TRUE(check_links(links, layout).empty());
  // Two links of a kind do not show which one is slow.
  EXPECT_TRUE(check_links({{0, 1, 1, 10}, {1, 2, 100, 1}}, NodeLayout({"a", "b", "c"})).empty());
}

TEST(Links, AreMeasuredBetweenAllNeighbours) {
  for (const int ranks : {1, 2, 5}) {
    run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
      const auto links = measure_links(group);
      ASSERT_EQ(links.size(), static_cast<std::size_t>(ranks - 1));
      for (int from = 0; from + 1 < ranks; ++from) {
        const Link& link = links[static_cast<std::size_t>(from)];
        EXPECT_EQ(link.from, from);
        EXPECT_EQ(link.to, from + 1);
        EXPECT_GT(link.latency_us, 0);
        EXPECT_GT(link.bandwidth_gb_s, 0);
      }
    });
  }
}

TEST(SharedFolder, IsLookedForAndLeftClean) {
  const test::ScratchFolder scratch;
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    const NodeLayout layout({"a", "a", "b"});
    EXPECT_TRUE(check_shared_folder(group, layout, scratch.path()).empty());
    expect_one(check_shared_folder(group, layout, scratch.file("nowhere")), "run folder",
               Finding::Severity::error, {"nowhere cannot be written: No such file", "run.dir"});
  });
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace lockstep::train
