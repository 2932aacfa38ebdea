// `lockstep doctor` and the start of an application under real faults. Private machines, small
// /dev/shm and unshared folders come from namespaces, which need root.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <apps/small_run.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;

Command doctor(int ranks, Command arguments = {}) {
  arguments.insert(arguments.begin(), "doctor");
  return app(ranks, "apps/lockstep", arguments);
}

/// Runs `script` in its own mount and UTS namespace, so that its mounts are private.
Command privately(const std::string& script) {
  return {"unshare", "--mount", "--uts", "sh", "-euc", script};
}

/// The command of a job of two ranks. A wrapper starts the second: its `script` ends with exec
/// "$@".
Command second_rank_privately(const Command& program, const std::string& script) {
  Command command = app(1, program.front(), Command(program.begin() + 1, program.end()));
  const Command second(std::find(command.begin(), command.end(), built(program.front())),
                       command.end());
  command.insert(command.end(),
                 {":", "-n", "1", "unshare", "--mount", "--uts", "sh", "-euc", script, "sh"});
  command.insert(command.end(), second.begin(), second.end());
  return command;
}

void expect_says(const Finished& finished, int exit_code, const std::vector<std::string>& words) {
  EXPECT_EQ(finished.exit_code, exit_code) << finished.output;
  for (const std::string& word : words) {
    EXPECT_TRUE(finished.says(word)) << "missing: " << word << "\nin: " << finished.output;
  }
}

class Privately : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || run(privately("true")).exit_code != 0) {
      GTEST_SKIP() << "needs root and permission to make namespaces";
    }
  }
  ScratchFolder scratch_;
};

TEST(Doctor, TellsOfDevicesThatARunWouldNotGet) {
  const auto deck = [](const std::string& device) {
    return Command{source("inputs/synthetic.toml"), "--set", "run.device=\"" + device + '"'};
  };
  Command itself = deck("sim:9");
  itself.emplace_back("--doctor");
  expect_says(classify(2, itself), 2, {"error", "run.device = \"sim:9\"", "sim:0 to sim:7"});
  expect_says(run(doctor(2, deck("sim:1"))), 2,
              {"error", "ranks 0, 1 of", "on sim:1", "run.device_sharing"});
  expect_says(run(doctor(2, deck("sim"))), 0, {});
}

TEST(Doctor, ReportsPlacementAndLinkSpeeds) {
  const ScratchFolder scratch;
  const Finished finished =
      run(doctor(2, {source("inputs/synthetic.toml"), "--set",
                     "run.dir=\"" + scratch.file("not/there/yet") + "\"", "--json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  const auto json = nlohmann::json::parse(finished.output);
  ASSERT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["local_rank"], 1);
  EXPECT_EQ(json["ranks"][1]["local_size"], 2);
  EXPECT_EQ(json["ranks"][0]["host"], json["ranks"][1]["host"]);
  EXPECT_EQ(json["ranks"][0]["thread_level"], "MPI_THREAD_MULTIPLE");
  ASSERT_EQ(json["links"].size(), 1U);
  EXPECT_GT(json["links"][0]["bandwidth_gb_s"], 0.0);
  EXPECT_GT(json["gradient_bytes"], 1000);
  EXPECT_EQ(json["run_folder"], scratch.path());
  EXPECT_EQ(json["error"], false);
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(Doctor, IsDoneInFiftyMillisecondsWhereAnApplicationAsks) {
  double fastest = 1e9;  // of several tries, because other programs use the cores
  for (int attempt = 0; attempt < 20 && fastest > 50.0; ++attempt) {
    const Finished finished = run(doctor(2, {"--json"}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    fastest =
        std::min(fastest, nlohmann::json::parse(finished.output)["app_start_ms"].get<double>());
  }
  EXPECT_LE(fastest, 50.0);
}

TEST(Doctor, WorldsOfOneAreExitCodeTwoWithTheRemedy) {
  Command alone{built("apps/lockstep"), "doctor"};
  expect_says(run(alone, {{"SLURM_STEP_NUM_TASKS", "4"}}), 2, {"error:", "srun --mpi=pmi2"});
  expect_says(run(alone, {{"OMPI_COMM_WORLD_SIZE", "4"}}), 2, {"error:", "LOCKSTEP_MPI=openmpi"});
  alone.emplace_back("--json");
  const Finished finished = run(alone, {{"PMI_SIZE", "4"}});
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  const auto json = nlohmann::json::parse(finished.output);
  EXPECT_EQ(json["error"], true);
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["findings"][0]["about"], "world of one");
}

TEST(Doctor, RanksThatShareACoreAreAWarning) {
  Command command = doctor(3);
  command.insert(command.begin(), {"taskset", "-c", "0"});
  expect_says(run(command), 0, {"warning: 3 ranks share 1 core(s)", "--cpus-per-task"});
}

TEST(Doctor, DecksThatDifferAreExitCodeTwo) {
  Command command = app(1, "apps/lockstep", {"doctor", source("inputs/synthetic.toml")});
  const Command second = command;
  command.insert(command.end(), {":", "-n", "1"});
  command.insert(command.end(), std::find(second.begin(), second.end(), built("apps/lockstep")),
                 second.end());
  command.insert(command.end(), {"--set", "train.epochs=77"});
  expect_says(run(command), 2, {"error: the resolved deck differs between ranks: rank 1"});
}

TEST(Doctor, DeckThatIsWrongIsExitCodeTwoInOneSentence) {
  const Finished finished = run(doctor(2, {"nowhere.toml"}));
  expect_says(finished, 2, {"lockstep: the deck nowhere.toml does not exist"});
  EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
}

TEST_F(Privately, RunFolderOfOneMachineAloneIsExitCodeTwo) {
  const std::string dir = scratch_.file("run");
  fs::create_directory(dir);
  const std::string other_machine =
      "hostname elsewhere; mount -t tmpfs tmpfs " + dir + "; exec \"$@\"";
  expect_says(run(second_rank_privately({"apps/lockstep", "doctor", source("inputs/synthetic.toml"),
                                         "--set", "run.dir=\"" + dir + "\""},
                                        other_machine)),
              2, {"error: a file that rank 0", "is not visible on elsewhere", "run.dir"});
  Command training = small_run(dir);
  training.insert(training.begin(), "apps/classify");
  const std::string with_checkpoints = "hostname elsewhere; mount -t tmpfs tmpfs " + dir +
                                       "; mkdir " + dir + "/checkpoints; exec \"$@\"";
  const Finished refused = run(second_rank_privately(training, with_checkpoints));
  expect_says(refused, 2, {"is not visible on elsewhere", "run.dir"});
  EXPECT_EQ(std::ranges::count(refused.output, '\n'), 1) << refused.output;
}

TEST_F(Privately, RunFolderThatIsReadOnlyIsExitCodeTwo) {
  const std::string dir = scratch_.file("run");
  fs::create_directory(dir);
  const auto command =
      doctor(2, {source("inputs/synthetic.toml"), "--set", "run.dir=\"" + dir + "\""});
  expect_says(run(privately("mount -t tmpfs -o ro tmpfs " + dir + "; " + quoted(command))), 2,
              {"error: " + dir + " cannot be written: Read-only file system", "run.dir"});
}

TEST_F(Privately, MachinesAreToldApartByTheirNames) {
  const Finished finished = run(second_rank_privately({"apps/lockstep", "doctor", "--json"},
                                                      "hostname elsewhere; exec \"$@\""));
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  const auto json = nlohmann::json::parse(finished.output);
  EXPECT_EQ(json["ranks"][1]["host"], "elsewhere");
  EXPECT_EQ(json["ranks"][1]["local_rank"], 0);
}

// Four machines on a bridge; the last one's cable carries 100 Mbit/s.
TEST_F(Privately, SlowLinkBetweenMachinesIsNamed) {
  const std::string machines = R"(
    mount -t tmpfs tmpfs /run
    ip link set lo up
    ip link add bridge type bridge
    ip link set bridge up
    for n in 1 2 3 4; do
      ip netns add net$n
      ip link add port$n type veth peer name eth0 netns net$n
      ip link set port$n master bridge up
      ip -n net$n address add 10.98.0.$n/24 dev eth0
      ip -n net$n link set eth0 up
      ip -n net$n link set lo up
    done
    tc qdisc add dev port4 root tbf rate 100mbit burst 64kb latency 50ms
    export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
  )";
  Command job;
  for (const char* number : {"1", "2", "3", "4"}) {
    Command rank = app(1, "apps/lockstep", {"doctor", "--json"});
    const auto program = std::find(rank.begin(), rank.end(), built("apps/lockstep"));
    rank.insert(program,
                {"ip", "netns", "exec", std::string("net") + number, "unshare", "--uts", "sh",
                 "-euc", "hostname machine" + std::string(number) + "; exec \"$@\"", "sh"});
    if (job.empty()) {
      job = rank;
      continue;
    }
    job.emplace_back(":");
    job.insert(job.end(), std::find(rank.begin(), rank.end(), "-n"), rank.end());
  }
  // Over TCP, MPICH's MPI_Finalize sometimes hangs on a busy machine after the doctor has printed
  // everything (docs/reference/limits.md).
  const Finished finished = run({"unshare", "--mount", "--uts", "--net", "--pid", "--fork",
                                 "--kill-child", "sh", "-euc", machines + quoted(job)},
                                {}, 25);
  constexpr int killed_at_deadline = 124;
  if (finished.exit_code != killed_at_deadline) {
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
  }
  const auto json = nlohmann::json::parse(finished.output, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << finished.output;
  std::string slow;
  for (const auto& finding : json["findings"]) {
    if (finding["about"] == "links") slow += finding["sentence"].get<std::string>() + "\n";
  }
  EXPECT_NE(slow.find("from rank 2 (machine3) to rank 3 (machine4) is slow"), std::string::npos)
      << finished.output;
}

/// A model with gradients of 2.6 MiB.
Command wide_mlp(const std::string& dir) {
  return small_run(dir, {"--set", "model.kind=\"mlp\"", "--set", "model.hidden=[2000]", "--set",
                         "train.epochs=1"});
}

// MPICH's own rings (UCX posix) take 8 MiB of it for two ranks.
TEST_F(Privately, GradientsThatDoNotFitIntoSharedMemoryAreForeseen) {
  Command arguments = wide_mlp(scratch_.file("run"));
  expect_says(
      run(privately("mount -t tmpfs -o size=12m tmpfs /dev/shm; " + quoted(doctor(2, arguments)))),
      0, {"warning: /dev/shm on ", "the gradients of 2 ranks need 5.1 MiB", "--shm-size"});
}

TEST_F(Privately, TrainingGoesOnWhereSharedMemoryIsShort) {
  const std::string dir = scratch_.file("run");
  const std::string training = quoted(app(2, "apps/classify", wide_mlp(dir)));
  expect_says(run(privately("mount -t tmpfs -o size=12m tmpfs /dev/shm; " + training)), 0,
              {"/dev/shm on ", "no room", "--shm-size", "test accuracy"});
  // Too small for MPI's own shared memory, and for the slot table of the collectives.
  for (const char* size : {"1m", "64k"}) {
    const Finished finished = run(
        privately("export UCX_TLS=sysv,cma,self,tcp; mount -t tmpfs -o size=" + std::string(size) +
                  " tmpfs /dev/shm; " + training));
    expect_says(finished, 0, {"/dev/shm on ", "no room", "--shm-size", "test accuracy"});
    EXPECT_FALSE(finished.says("warning: rank 1")) << "once a machine: " << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
