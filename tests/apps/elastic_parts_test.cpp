// Decisions of `lockstep elastic`, without starting anything: placement, budget, blame.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <elastic/budget.hpp>
#include <elastic/child.hpp>
#include <elastic/death_watch.hpp>
#include <elastic/diagnosis.hpp>
#include <elastic/launcher.hpp>
#include <elastic/leftovers.hpp>
#include <elastic/members.hpp>
#include <elastic/memory_watch.hpp>
#include <elastic/placement.hpp>
#include <elastic/run_view.hpp>
#include <filesystem>
#include <fstream>
#include <lockstep/base/error.hpp>
#include <lockstep/base/helper_program.hpp>
#include <lockstep/base/process_state.hpp>
#include <optional>
#include <support/message_of.hpp>
#include <support/process.hpp>

namespace lockstep::elastic {
namespace {

using std::chrono::seconds;
using test::ScratchFolder;

/// A process that only holds a ring, until it is killed.
RankProcess idle_rank(int rank, const ScratchFolder& folder) {
  const std::string ring = folder.file("rank" + std::to_string(rank) + ".ring");
  std::ofstream(ring) << "a ring";
  std::array<int, 2> ready{};
  EXPECT_EQ(pipe(ready.data()), 0);
  const int pid = fork();
  if (pid == 0) {
    const int file = open(ring.c_str(), O_RDWR);
    mmap(nullptr, 6, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    close(ready[1]);
    while (true) pause();
  }
  close(ready[1]);
  char nothing = 0;
  EXPECT_EQ(read(ready[0], &nothing, 1), 0);  // it has the ring
  close(ready[0]);
  return {rank, pid, ring};
}

void end(const RankProcess& process) {
  kill(process.pid, SIGKILL);
  waitpid(process.pid, nullptr, 0);
}

TEST(DeathWatch, FindsTheFirstEndedRankHoweverLateItLooks) {
  const ScratchFolder folder;
  const RankProcess second = idle_rank(0, folder), first = idle_rank(1, folder);
  DeathWatch watch;
  watch.add({second});
  watch.add({second, first});
  end(first);
  end(second);
  EXPECT_EQ(watch.first(), 1);
}

TEST(DeathWatch, TakesARankThatEndedBeforeTheWatchForTheFirstUnlessThereAreSeveral) {
  const ScratchFolder folder;
  const RankProcess second = idle_rank(0, folder), first = idle_rank(1, folder);
  DeathWatch one, both, none;
  none.add({second});
  EXPECT_EQ(none.first(), std::nullopt);
  end(first);
  one.add({second, first});
  end(second);
  both.add({second, first});
  EXPECT_EQ(one.first(), 1);
  EXPECT_EQ(both.first(), std::nullopt);
}

TEST(MembersFile, HasAHostALineWithItsSlotsAndComments) {
  const Hosts hosts = parse_members("# all\nnode1 4\n\n  node2\t2 # slow\nnode3\n", "members");
  EXPECT_EQ(hosts, (Hosts{{"node1", 4}, {"node2", 2}, {"node3", 1}}));
  EXPECT_TRUE(parse_members("", "members").empty());
}

TEST(MembersFile, IsRefusedWithTheLineThatIsWrong) {
  for (const char* bad : {"a 1\nb -1\n", "a 1\nb x\n", "a\na\n", "a\nb 1 2\n", "a\nb:2\n"}) {
    const std::string said =
        test::message_of<InputError>([&] { static_cast<void>(parse_members(bad, "members")); });
    EXPECT_NE(said.find("members:2: "), std::string::npos) << bad << ": " << said;
  }
}

TEST(MembersFile, NamesHostsThatNoProgramTakesForAnOptionAUserOrAList) {
  const std::string longest(253, 'n');
  for (const std::string& good :
       {std::string("node1"), std::string("a.b-c_d.example"), std::string("192.0.2.7"), longest})
    EXPECT_EQ(parse_members(good + " 2\n", "members"), (Hosts{{good, 2}}));
  for (const std::string& bad :
       {std::string("-x"), std::string("-oProxyCommand=touch"), std::string("me@node1"),
        std::string("a;b"), std::string("$(id)"), std::string("a'b"), std::string(".a"),
        std::string("a/b"), std::string("::1"), longest + 'n'}) {
    const std::string said = test::message_of<InputError>(
        [&] { static_cast<void>(parse_members("a\n" + bad + "\n", "members")); });
    EXPECT_NE(said.find("members:2: \"" + bad + "\" is not a host name"), std::string::npos)
        << said;
  }
}

TEST(MembersFile, OfManyHostsIsReadInNoTime) {
  std::string text;
  for (int host = 0; host < 300'000; ++host) text += "host" + std::to_string(host) + "\n";
  const auto begun = Clock::now();
  EXPECT_EQ(parse_members(text, "members").size(), 300'000U);
  EXPECT_LT(seconds_since(begun), 10.0);  // takes minutes if compared one by one
}

TEST(MembersFile, ThatIsAPipeOrADeviceIsRefusedAtOnce) {
  const ScratchFolder scratch;
  const std::string pipe = scratch.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")})
    EXPECT_THROW(static_cast<void>(members_of_file(path)), InputError) << path;
}

TEST(MembersFile, ThatCannotBeReadForAMomentChangesNothing) {
  const ScratchFolder scratch;
  const auto path = scratch.write("members", "node1 2\n");
  const Members members = members_of_file(path);
  scratch.write("members", "node1 two\n");
  EXPECT_EQ(members(false), (Hosts{{"node1", 2}}));
  scratch.write("members", "node2 3\n");
  EXPECT_EQ(members(false), (Hosts{{"node2", 3}}));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);  // opens like a file, but every read fails
  EXPECT_EQ(members(false), (Hosts{{"node2", 3}}));
  EXPECT_THROW(static_cast<void>(members_of_file(path)), InputError);
  EXPECT_THROW(static_cast<void>(members_of_file(scratch.file("none"))), InputError);
}

TEST(SlurmsTasksANode, AreUnfolded) {
  EXPECT_EQ(parse_tasks_per_node("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_tasks_per_node("8"), (std::vector<int>{8}));
  for (const char* bad : {"x", "2(x", "2(x3", "0", "2(x0)"})
    EXPECT_THROW(static_cast<void>(parse_tasks_per_node(bad)), InputError) << bad;
}

TEST(Sizes, AreTheLargestThatFitAndDivide) {
  const Sizes any{.min = 2, .max = 4};
  EXPECT_EQ(any.largest(1), 0);
  EXPECT_EQ(any.largest(3), 3);
  EXPECT_EQ(any.largest(9), 4);
  const Sizes dividing{.min = 3, .max = 11, .divide = 12};
  EXPECT_EQ(dividing.largest(11), 6);
  EXPECT_EQ(dividing.largest(5), 4);
  EXPECT_EQ(dividing.largest(2), 0);
}

TEST(Sizes, AreMultiplesOfTheRanksThatHoldOneModel) {
  const Sizes pairs{.min = 1, .max = 9, .multiple = 2};
  EXPECT_EQ(pairs.largest(9), 8);
  EXPECT_EQ(pairs.largest(3), 2);
  EXPECT_EQ(pairs.largest(1), 0);
  EXPECT_EQ(pairs.smallest(), 2);
  const Sizes dividing{.min = 1, .max = 12, .multiple = 2, .divide = 4};
  EXPECT_EQ(dividing.largest(12), 8);
  EXPECT_EQ(dividing.largest(7), 4);
  EXPECT_EQ((Sizes{.min = 3, .max = 3, .multiple = 2}.smallest()), 0);
}

TEST(Placement, FillsHostsInOrderAndKnowsEachRanksHost) {
  const Placement placement = place({{"a", 2}, {"b", 1}, {"c", 4}}, {.min = 1, .max = 5});
  EXPECT_EQ(placement.hosts, (Hosts{{"a", 2}, {"b", 1}, {"c", 2}}));
  EXPECT_EQ(placement.host_of(1), "a");
  EXPECT_EQ(placement.host_of(2), "b");
  EXPECT_EQ(placement.host_of(4), "c");
  EXPECT_EQ(placement.host_of(5), "");
  EXPECT_EQ(placement.host_of(-1), "");
  EXPECT_TRUE(placement.fits({{"c", 2}, {"b", 3}, {"a", 2}}));
  EXPECT_FALSE(placement.fits({{"a", 2}, {"b", 1}, {"c", 1}}));
  EXPECT_FALSE(placement.fits({{"a", 2}, {"c", 9}}));
}

TEST(Losses, OfSlotsEndByThemselvesOfHostsWhenTheyAnswer) {
  const auto now = Clock::now();
  const Hosts hosts{{"a", 2}, {"b", 2}};
  Losses losses;
  losses.lose_slot("a", now + seconds(10));
  losses.lose_host("b", now + seconds(10));
  EXPECT_EQ(losses.left(hosts, now), (Hosts{{"a", 1}}));
  EXPECT_TRUE(losses.hosts_due(now).empty());
  EXPECT_EQ(losses.left(hosts, now + seconds(11)), (Hosts{{"a", 2}}));
  EXPECT_EQ(losses.hosts_due(now + seconds(11)), std::vector<std::string>{"b"});
  losses.host_is_back("b");
  EXPECT_EQ(losses.left(hosts, now), (Hosts{{"a", 1}, {"b", 2}}));
  losses.forgive_slots();
  EXPECT_EQ(losses.left(hosts, now), hosts);
  losses.limit("a", 1);
  losses.limit("a", 2);
  losses.forgive_slots();
  EXPECT_EQ(losses.left(hosts, now + seconds(1000)), (Hosts{{"a", 1}, {"b", 2}}));
}

TEST(Budget, CountsFailuresOfAllRanksInItsWindow) {
  const auto now = Clock::now();
  Budget budget(2, Seconds(100));
  EXPECT_TRUE(budget.allows(now));
  EXPECT_TRUE(budget.allows(now + seconds(1)));
  EXPECT_EQ(budget.left(), 0);
  EXPECT_FALSE(budget.allows(now + seconds(2)));
  Budget later(2, Seconds(100));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(later.allows(now + seconds(60 * i))) << i;
  Budget in_all(1, Seconds(0));
  EXPECT_TRUE(in_all.allows(now));
  EXPECT_FALSE(in_all.allows(now + std::chrono::hours(1000)));
}

TEST(BackOff, GrowsWithoutProgressIsBoundedAndStartsAnewWithProgress) {
  BackOff pause;
  EXPECT_EQ(pause.after_failure(0), 0.0);
  EXPECT_EQ(pause.after_failure(0), 1.0);
  EXPECT_EQ(pause.after_failure(0), 2.0);
  EXPECT_EQ(pause.after_failure(0), 4.0);
  EXPECT_EQ(pause.after_failure(50), 0.0);
  EXPECT_EQ(pause.after_failure(40), 1.0);
  for (int i = 0; i < 20; ++i) EXPECT_LE(pause.after_failure(0), BackOff::longest);
}

Blame blame_of(std::initializer_list<const char*> lines) {
  LauncherWords words;
  for (const char* line : lines) words.line(line);
  return words.blame();
}

TEST(LauncherWords, OfMpiexecNameProcessHostAndSignal) {
  const Blame blame = blame_of(
      {"epoch 1/2  step 50/938  loss 2.2694",
       "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "=   PID 14113 RUNNING AT nodea",
       "=   EXIT CODE: 9", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"});
  EXPECT_EQ(blame.pid, 14113);
  EXPECT_EQ(blame.host, "nodea");
  EXPECT_EQ(blame.signal, 9);
  EXPECT_EQ(blame.rank, -1);
}

TEST(LauncherWords, OfSrunNameTheFirstTaskItsHostAndWhy) {
  const Blame blame =
      blame_of({"srun: error: node2: task 3: Killed", "srun: error: node1: tasks 0-1: Terminated"});
  EXPECT_EQ(blame.rank, 3);
  EXPECT_EQ(blame.host, "node2");
  EXPECT_EQ(blame.signal, 9);
  EXPECT_FALSE(blame.out_of_memory);
  EXPECT_TRUE(blame_of({"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0.",
                        "srun: error: node1: task 0: Out Of Memory"})
                  .out_of_memory);
}

TEST(LauncherWords, OfSrunTellALostNodeAndAStepThatWasNeverMade) {
  EXPECT_EQ(blame_of({"srun: error: Node failure on node3", "srun: error: node2: task 1: Killed"})
                .failed_node,
            "node3");
  EXPECT_TRUE(blame_of({"srun: error: Unable to create step for job 1: Requested node "
                        "configuration is not available"})
                  .not_started);
}

TEST(LauncherWords, FirstWordsAreNoRule) {
  EXPECT_EQ(first_words("\n=====\n=   BAD TERMINATION OF ONE\n=   PID 7\n"),
            "=   BAD TERMINATION OF ONE");
  EXPECT_EQ(first_words(" \t\r\n-----\n"), "");
}

TEST(Launcher, NamesHostsInMpichsWayAndARanksHostInSlurms) {
  const Placement placement{{{"a", 2}, {"b", 1}}};
  const auto mpiexec = Launcher({"mpiexec", "-v"}, true).command(placement, 1, {"app", "deck"});
  EXPECT_EQ(mpiexec.words, (std::vector<std::string>{"mpiexec", "-v", "-hosts", "a:2,b:1", "-n",
                                                     "3", "app", "deck"}));
  const auto here = Launcher({"mpiexec"}, false).command(placement, 1, {"app"});
  EXPECT_EQ(here.words, (std::vector<std::string>{"mpiexec", "-n", "3", "app"}));
  const auto srun = Launcher({"/usr/bin/srun"}, true).command(placement, 1, {"app"}).words;
  EXPECT_NE(std::find(srun.begin(), srun.end(), "--nodelist=a,a,b"), srun.end());
  EXPECT_NE(std::find(srun.begin(), srun.end(), "--ntasks=3"), srun.end());
  EXPECT_NE(std::find(srun.begin(), srun.end(), "--mpi=pmi2"), srun.end());
  const auto pmix = Launcher({"srun", "--mpi=pmix"}, true).command(placement, 1, {"app"}).words;
  EXPECT_EQ(std::count_if(pmix.begin(), pmix.end(),
                          [](const std::string& word) { return word.starts_with("--mpi"); }),
            1);
}

TEST(Launcher, RefusesAListOfHostsThatNoCommandLineTakes) {
  Placement placement;
  for (int host = 0; host < 20'000; ++host)
    placement.hosts.push_back({"host" + std::to_string(host), 1});
  for (const char* program : {"mpiexec", "srun"}) {
    const Launcher launcher({program}, true);
    const std::string said = test::message_of<InputError>(
        [&] { static_cast<void>(launcher.command(placement, 1, {"app"})); });
    EXPECT_NE(said.find("20000 ranks on 20000 hosts"), std::string::npos) << said;
  }
}

TEST(ThisMachine, HasNoPlaceForMoreRanksThanItHasMemoryFor) {
  EXPECT_EQ(members_of_this_machine(4)(true).front().slots, 4);
  const std::string said = test::message_of<InputError>(
      [] { static_cast<void>(members_of_this_machine(1'000'000'000)); });
  EXPECT_NE(said.find("1000000000 ranks do not fit on this machine"), std::string::npos) << said;
}

/// An idle process with the mark of a supervisor in its environment.
int marked(const std::string& mark) {
  const int pid = fork();
  if (pid == 0) {
    setenv("LOCKSTEP_SUPERVISOR", mark.c_str(), 1);
    execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  return pid;
}

TEST(Leftovers, AreTheProcessesOfADeadSupervisorOfTheSameRunFolder) {
  const ScratchFolder scratch;
  const auto own = mark_of_this_supervisor(scratch.path()).front();
  EXPECT_EQ(own.first, "LOCKSTEP_SUPERVISOR");
  const std::string behind = own.second.substr(own.second.find(' '));  // START FOLDER
  const std::string dead = "999999999" + behind;
  const std::vector<int> all{marked(own.second), marked(dead), marked(dead + "/other"),
                             marked("damaged")};
  const auto found = [&] { return leftovers(scratch.path()); };
  for (int i = 0; i < 500 && found().empty(); ++i) usleep(10'000);  // until it has become sleep
  EXPECT_EQ(found(), std::vector<int>{all[1]});
  for (const int pid : all) kill(pid, SIGKILL);
  for (int i = 0; i < 500 && !found().empty(); ++i) usleep(10'000);  // until they are dead
  EXPECT_TRUE(found().empty());
  for (const int pid : all) waitpid(pid, nullptr, 0);
}

/// Waits until the file holds a number.
int number_in(const std::string& file) {
  std::string line;
  for (int i = 0; i < 3000; ++i) {
    std::ifstream in(file);
    if (std::getline(in, line) && !in.eof()) return std::stoi(line);
    usleep(10'000);
  }
  return -1;
}

bool lives(int pid) { return can_run(process_state(pid)); }

TEST(Child, IsKilledWithItsOrphansAndLeavesHelperProgramsAlone) {
  const ScratchFolder scratch;
  const std::string helper = scratch.file("helper"), orphan = scratch.file("orphan");
  HelperProgram query({"sh", "-c", "sleep 1000 & echo $! >" + helper + "; wait; exit 3"});
  Child child(
      {"sh", "-c", "(setsid sleep 1000 & echo $! >" + orphan + "); exec sleep 1000"}, {},
      [](std::string_view) {}, Child::Output::listened_to);
  const int of_query = number_in(helper), of_child = number_in(orphan);
  for (int i = 0; i < 3000 && parent_of(of_child) != getpid(); ++i) usleep(10'000);
  ASSERT_EQ(parent_of(of_child), getpid());
  EXPECT_EQ(child.kill_all(), 1);
  EXPECT_EQ(child.code(), 128 + SIGKILL);
  EXPECT_EQ(process_state(of_child), ProcessState::gone) << "it was waited for";
  EXPECT_TRUE(lives(query.pid()));
  ASSERT_TRUE(lives(of_query));
  kill(of_query, SIGTERM);
  EXPECT_TRUE(query.wait(seconds(60)));
  EXPECT_EQ(query.code(), 3) << "nobody else has waited for it";
}

/// Slurm's commands, of an allocation of two nodes; what each prints is in a file of its name.
class FakeSlurm {
 public:
  FakeSlurm() {
    const std::pair<std::string, std::string> variables[] = {
        {"PATH", scratch_.file("bin") + ":" + std::getenv("PATH")},
        {"SLURM_JOB_ID", "1"},
        {"SLURM_JOB_NODELIST", "node[1-2]"},
        {"SLURM_TASKS_PER_NODE", "2(x2)"}};
    for (const auto& [name, value] : variables) {
      const char* const before = std::getenv(name.c_str());
      before_.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
      setenv(name.c_str(), value.c_str(), 1);
    }
    command("scontrol", "echo \"$3\" | sed 's/node.1-2./node1 node2/'");
    answer("squeue", "node[1-2]");
    answer("sinfo", "node1 idle node2 idle");
  }
  ~FakeSlurm() {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;

  void answer(const std::string& name, const std::string& words) {
    command(name, "echo '" + words + "'");
  }
  void fail(const std::string& name) { command(name, "kill -9 $$"); }

 private:
  void command(const std::string& name, const std::string& script) {
    const std::string program = scratch_.write("bin/" + name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }

  ScratchFolder scratch_;
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST(SlurmsMembers, AnAnswerThatDoesNotComeChangesNothing) {
  FakeSlurm slurm;
  const Members members = members_of_slurm();
  const auto names = [&] {
    usleep(1'100'000);  // until it asks again
    std::vector<std::string> all;
    for (const Host& host : members(/*now=*/true)) all.push_back(host.name);
    return all;
  };
  using Names = std::vector<std::string>;
  slurm.answer("squeue", "node1");  // node2 has failed, and left the job
  EXPECT_EQ(names(), Names{"node1"});
  slurm.fail("squeue");
  EXPECT_EQ(names(), Names{"node1"}) << "it has not come back";
  slurm.answer("squeue", "");
  slurm.answer("sinfo", "node1 idle node2 down*");
  EXPECT_EQ(names(), Names{"node1"});
  slurm.answer("squeue", "node[1-2]");
  slurm.fail("sinfo");
  EXPECT_EQ(names(), Names{"node1"}) << "it is not up again";
}

/// A system as the kernel presents it, with rank 1 as process 77 in group /job/step.
class FakeSystem {
 public:
  explicit FakeSystem(bool second) : second_(second) {
    scratch_.write("proc/77/status", "Name:\tapp\nVmHWM:\t 2097152 kB\nVmRSS:\t 1048576 kB\n");
    scratch_.write("proc/77/limits", "Max address space         unlimited     unlimited  bytes\n");
    scratch_.write("proc/77/cgroup", second ? "0::/job/step\n" : "4:memory:/job/step\n0::/\n");
    scratch_.write("proc/meminfo", "MemTotal:       8388608 kB\n");
    group("", 0);
    group("/step", 0);
    machine(5);
  }
  void machine(int kills) {
    scratch_.write("proc/vmstat", "oom_kill " + std::to_string(kills) + "\n");
  }
  void group(const std::string& name, int kills) {
    const std::string count = "oom_kill " + std::to_string(kills) + "\n";
    const bool limited = name.empty();  // the step has no limit of its own, but its job has
    if (second_) {
      scratch_.write("sys/fs/cgroup/job" + name + "/memory.max",
                     limited ? "3221225472\n" : "max\n");
      scratch_.write("sys/fs/cgroup/job" + name + "/memory.events", "oom 1\n" + count);
    } else {
      scratch_.write("sys/fs/cgroup/memory/job" + name + "/memory.limit_in_bytes",
                     limited ? "3221225472\n" : "9223372036854771712\n");
      scratch_.write("sys/fs/cgroup/memory/job" + name + "/memory.oom_control",
                     "under_oom 0\n" + count);
    }
  }
  [[nodiscard]] MemoryWatch watch() const { return MemoryWatch(scratch_.path()); }

 private:
  bool second_;
  ScratchFolder scratch_;
};

class OutOfMemory : public ::testing::TestWithParam<bool> {};

TEST_P(OutOfMemory, OfAControlGroupNamesTheRankItsMemoryAndTheLimit) {
  FakeSystem system(GetParam());
  MemoryWatch watch = system.watch();
  watch.look({{.rank = 1, .pid = 77}});
  EXPECT_FALSE(watch.finding(1));
  system.group("", 1);
  system.machine(6);
  const auto finding = watch.finding(1);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->rank, 1);
  EXPECT_NE(finding->text.find("rank 1 for lack of memory: it held 1.0 GiB (2.0 GiB at most)"),
            std::string::npos)
      << finding->text;
  EXPECT_NE(finding->text.find("of control group /job, is 3.0 GiB"), std::string::npos)
      << finding->text;
}

TEST_P(OutOfMemory, OfTheMachineIsDistinguishedAndBlamesTheLargestRank) {
  FakeSystem system(GetParam());
  MemoryWatch watch = system.watch();
  watch.look({{.rank = 1, .pid = 77}});
  system.machine(6);
  const auto finding = watch.finding(-1);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->rank, 1);
  EXPECT_NE(finding->text.find("the machine's memory, is 8.0 GiB"), std::string::npos)
      << finding->text;
}

INSTANTIATE_TEST_SUITE_P(ControlGroups, OutOfMemory, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "V2" : "V1"; });

TEST(RunFolder, IsReleasedFromItsStartsLockAndFromNoOther) {
  const ScratchFolder scratch;
  RunView run(scratch.path());
  run.begin();
  const auto lock = scratch.write("run.lock", "of this start");
  run.release();
  EXPECT_FALSE(std::filesystem::exists(lock));
  scratch.write("run.lock", "of somebody else");
  run.begin();
  std::filesystem::last_write_time(lock, std::filesystem::file_time_type::clock::now() +
                                             std::chrono::seconds(20));  // a sign of life
  run.release();
  EXPECT_TRUE(std::filesystem::exists(lock));
}

Ending diagnosed(const Evidence& evidence) {
  const ScratchFolder empty;
  return diagnose(evidence, Placement{{{"a", 2}, {"b", 2}}}, RunView(empty.path()), MemoryWatch());
}

TEST(Diagnosis, TakesASignalsNumberForNoExitCode) {
  // mpiexec returns 2 for a bad deck and after SIGINT; 4 for a bad checkpoint and after SIGILL.
  EXPECT_EQ(diagnosed({.code = 2}).why, Why::input);
  EXPECT_EQ(diagnosed({.code = 4}).why, Why::checkpoint);
  EXPECT_EQ(diagnosed({.code = 4, .blame = {.rank = 3, .signal = 4}}).why, Why::killed);
  EXPECT_EQ(diagnosed({.code = 4, .blame = {.rank = 3, .signal = 4}}).hosts,
            std::vector<std::string>{"b"});
}

TEST(Diagnosis, OfALostNodeComesBeforeThatOfTheRanksThatWereEndedForIt) {
  const Ending lost =
      diagnosed({.code = 137, .blame = {.rank = 0, .signal = 9, .failed_node = "b"}});
  EXPECT_EQ(lost.why, Why::host_lost);
  EXPECT_EQ(lost.hosts, std::vector<std::string>{"b"});
  EXPECT_TRUE(lost.ranks.empty());
  EXPECT_EQ(diagnosed({.code = 1, .blame = {.not_started = true}}).why, Why::killed);
}

TEST(Diagnosis, OfSuccessWantsTheRunsOwnWord) {
  EXPECT_EQ(diagnosed({.code = 0}).why, Why::killed);
}

TEST(Diagnosis, TellsAPlannedChangeFromARequestToStop) {
  EXPECT_EQ(diagnosed({.code = 75, .change_was_asked = true}).why, Why::members);
  EXPECT_EQ(diagnosed({.code = 75}).why, Why::stopped);
  EXPECT_EQ(diagnosed({.code = 75, .change_was_asked = true, .stop_was_asked = true}).why,
            Why::stopped);
}

}  // namespace
}  // namespace lockstep::elastic
