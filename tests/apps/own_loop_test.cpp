// `lockstep elastic` with programs that have a training loop of their own (train/elastic.hpp).
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <apps/small_run.hpp>
#include <apps/supervised.hpp>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <functional>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class OwnLoop : public Supervised {
 protected:
  [[nodiscard]] Words command(const Words& options, const Words& program) const {
    Words words{built("apps/lockstep"),
                "elastic",
                "--launcher",
                launcher_,
                "--settle",
                "0.2",
                "--dir",
                dir()};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  /// tests/apps/own_loop with that fault, on two ranks.
  Finished misbehave(const std::string& fault, const Words& more = {}) {
    Words options{"--min", "2", "--max", "2", "--rejoin", "0"};
    options.insert(options.end(), more.begin(), more.end());
    Finished finished = run(command(options, own_loop(fault)));
    expect_nothing_left();
    return finished;
  }
  [[nodiscard]] Words own_loop(const std::string& fault) const {
    return {built("tests/apps/own_loop"), scratch_.file("state"), fault};
  }
  [[nodiscard]] std::string steps() const { return read_file(scratch_.file("state/steps")); }

  [[nodiscard]] Words save_and_load(const std::string& folder, int epochs) const {
    return {built("docs/examples/save_and_load"), scratch_.file(folder), std::to_string(epochs)};
  }
  /// A run that nobody disturbs, and how long it takes.
  Finished undisturbed(int ranks, const std::string& folder, int epochs) {
    return run(
        app(ranks, "docs/examples/save_and_load", {scratch_.file(folder), std::to_string(epochs)}));
  }
  /// How long save_and_load takes here on two ranks.
  struct Pace {
    double until_up_s, epoch_s;
    /// That last for about so long, on a busy machine and under a sanitizer too.
    [[nodiscard]] int epochs(double seconds) const {
      return std::max(4, static_cast<int>(seconds / epoch_s));
    }
  };
  Pace pace() {
    constexpr int some = 8;
    constexpr double least_s = 0.005;
    const double none_s = undisturbed(2, "none", 0).seconds;
    const double some_s = undisturbed(2, "some", some).seconds;
    return {none_s, std::max(least_s, (some_s - none_s) / some)};
  }
  void expect_same_bits(const std::string& a, const std::string& b) {
    const auto newest = [&](const std::string& folder) {
      const auto file = newest_good_checkpoint(scratch_.file(folder));
      return file ? file->string() : "no checkpoint in " + folder;
    };
    EXPECT_EQ(fs::path(newest(a)).filename(), fs::path(newest(b)).filename());
    const Finished same = lockstep_utility({"checkpoint", "diff", newest(a), newest(b)});
    EXPECT_EQ(same.exit_code, 0) << same.output;
  }

  /// Ranks of this test that are there: processes of `program`, not of its launcher.
  [[nodiscard]] std::vector<pid_t> ranks_of(const std::string& program) const {
    std::vector<pid_t> ranks;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      pid_t pid = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
      std::error_code gone;
      if (fs::read_symlink(entry.path() / "exe", gone) != program || gone) continue;
      const std::string words = read_of_process(entry.path().string() + "/cmdline");
      if (words.find(scratch_.path()) != std::string::npos) ranks.push_back(pid);
    }
    return ranks;
  }
  /// Kills a rank, chosen by `chance`, as soon as there is one and `moment(ranks)` returns.
  /// False: `over` was asked for before.
  template <class Moment>
  bool kill_one(const std::string& program, std::mt19937& chance, const std::stop_token& over,
                const Moment& moment) const {
    while (!over.stop_requested()) {
      const auto ranks = ranks_of(program);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (ranks.empty()) continue;
      const pid_t victim = ranks[chance() % ranks.size()];
      moment();
      if (std::ranges::count(ranks_of(program), victim) == 0) continue;  // it has ended meanwhile
      if (kill(victim, SIGKILL) != 0) continue;
      while (!over.stop_requested() && !ranks_of(program).empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return true;
    }
    return false;
  }
};

int kills_wanted() {
  const char* many = std::getenv("LOCKSTEP_KILLS");
  return many ? std::atoi(many) : 6;
}

// Moments are drawn between the start of a rank's process and half of a share of the undisturbed
// run's time behind the first step, so that they fall into MPI_Init, loading, steps and saves, and
// the run is not over before the last kill; where it is, on a busy machine, a longer one is tried.
// LOCKSTEP_KILLS=50 kills that often.
TEST_F(OwnLoop, EndsWithTheSameBitsHoweverOftenARandomRankIsKilledAtARandomMoment) {
  const int kills = kills_wanted();
  const Pace pace = this->pace();
  const std::string program = built("docs/examples/save_and_load");
  int killed = 0;
  std::size_t ends = 0;
  std::string output;
  const auto is_done = [&] {
    return killed == kills && ends == static_cast<std::size_t>(kills) + 1;
  };
  for (int attempt = 1; attempt <= 3 && !is_done(); ++attempt) {
    for (const char* old : {"calm", "killed", "run"}) fs::remove_all(scratch_.file(old));
    const int epochs = attempt * pace.epochs(1.5 + 0.35 * kills);
    const Finished calm = undisturbed(2, "calm", epochs);
    ASSERT_EQ(calm.exit_code, 0) << calm.output;

    std::mt19937 chance(20261127);
    std::uniform_real_distribution<double> pause(0, pace.until_up_s + 0.5 * calm.seconds / kills);
    killed = 0;
    std::jthread killer([&](const std::stop_token& over) {
      while (killed < kills && kill_one(program, chance, over, [s = pause(chance)] {
               std::this_thread::sleep_for(Seconds(s));
             }))
        ++killed;
    });
    const Finished finished = run(command({"--min", "2", "--max", "2", "--within", "0",
                                           "--restarts", std::to_string(kills), "--rejoin", "0"},
                                          save_and_load("killed", epochs)),
                                  {}, 120 + 10 * kills + 4 * calm.seconds);
    killer.request_stop();
    killer.join();
    output = finished.output;
    ASSERT_EQ(finished.exit_code, 0) << output;
    EXPECT_EQ(history("end").back().at("why"), "completed") << output;
    ends = history("end").size();
    expect_same_bits("calm", "killed");
    EXPECT_TRUE(list_unfinished_checkpoints(scratch_.file("killed")).empty());
    expect_nothing_left();
  }
  EXPECT_TRUE(is_done()) << killed << " kills, " << ends << " starts\n" << output;
}

TEST_F(OwnLoop, KilledInTheMidstOfASaveItGoesOnFromTheCheckpointBefore) {
  constexpr int epochs = 12;
  ASSERT_EQ(undisturbed(2, "calm", epochs).exit_code, 0);
  const std::string program = built("docs/examples/save_and_load");
  const fs::path folder = scratch_.file("killed");
  std::mt19937 chance(7);
  int in_a_save = 0;
  std::jthread killer([&](const std::stop_token& over) {
    for (bool goes_on = true; goes_on && in_a_save < 3;) {
      goes_on = kill_one(program, chance, over, [&] {
        // A checkpoint of this start, which is being written now.
        const auto old = list_checkpoints(folder);
        while (!over.stop_requested() &&
               (list_checkpoints(folder) == old || list_unfinished_checkpoints(folder).empty()))
          std::this_thread::yield();
      });
      if (goes_on && !list_unfinished_checkpoints(folder).empty()) ++in_a_save;
    }
  });
  const Finished finished = run(
      command({"--min", "2", "--max", "2", "--restarts", "100", "--within", "0", "--rejoin", "0"},
              save_and_load("killed", epochs)));
  killer.request_stop();
  killer.join();
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_GE(in_a_save, 1) << "no kill left an unfinished checkpoint\n" << finished.output;
  expect_same_bits("calm", "killed");
}

// Three ranks, two after a kill, and three again once the slot counts again: a planned change, for
// which all save.
TEST_F(OwnLoop, GoesOnWithOtherNumbersOfRanksToTheSameBits) {
  const int epochs = pace().epochs(6);
  ASSERT_EQ(undisturbed(2, "calm", epochs).exit_code, 0);
  const std::string program = built("docs/examples/save_and_load");
  std::mt19937 chance(3);
  std::jthread killer([&](const std::stop_token& over) {
    static_cast<void>(kill_one(program, chance, over, [&] {
      while (!over.stop_requested() && list_checkpoints(scratch_.file("killed")).empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }));
  });
  const Finished finished = run(
      command({"--min", "1", "--max", "3", "--rejoin", "0.5"}, save_and_load("killed", epochs)));
  killer.request_stop();
  killer.join();
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("start", "ranks"), Json({3, 2, 3})) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"killed", "members", "completed"})) << finished.output;
  // Nothing is lost by the planned change.
  EXPECT_EQ(history("start")[2].at("step"), history("end")[1].at("step")) << finished.output;
  EXPECT_EQ(history("start")[2].at("lost_steps"), 0) << finished.output;
  expect_same_bits("calm", "killed");
}

TEST_F(OwnLoop, StopsOnRequestWithSeventyFiveAndGoesOnWhenItIsStartedAgain) {
  constexpr int epochs = 15;
  ASSERT_EQ(undisturbed(2, "calm", epochs).exit_code, 0);
  const auto words = command({"--min", "2", "--max", "2"}, save_and_load("stopped", epochs));
  const std::string any = scratch_.file("stopped") + "/step-*.h5";
  const Finished stopped =
      run({"sh", "-c",
           quoted(words) + "& pid=$!; until ls " + any +
               " >/dev/null 2>&1; do sleep 0.02; done; kill -TERM $pid; wait $pid"});
  EXPECT_EQ(stopped.exit_code, 75) << stopped.output;
  EXPECT_EQ(all("end", "why"), Json({"stopped"})) << stopped.output;
  const auto report = Json::parse(read_file(dir() + "/program.json"));
  EXPECT_EQ(report.at("stopped_early"), true);
  EXPECT_EQ(report.at("stopped_by"), "SIGUSR1");
  // The very step at which it stopped was saved.
  EXPECT_EQ(step_of(*newest_good_checkpoint(scratch_.file("stopped"))), report.at("step"));
  const Finished again = run(words);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(again.says("goes on from step")) << again.output;
  expect_same_bits("calm", "stopped");
  expect_nothing_left();
}

// mpiexec hears of its supervisor's end, and asks the ranks to stop.
TEST_F(OwnLoop, GoesOnUnderTheNextSupervisorWhereOneWasKilled) {
  constexpr int epochs = 15;
  ASSERT_EQ(undisturbed(2, "calm", epochs).exit_code, 0);
  const auto words = command({"--min", "2", "--max", "2"}, save_and_load("left", epochs));
  const std::string any = scratch_.file("left") + "/step-*.h5";
  const Finished finished = run(
      {"sh", "-c",
       quoted(words) + "& pid=$!; until ls " + any +
           " >/dev/null 2>&1; do sleep 0.02; done; kill -KILL $pid; wait $pid; " + quoted(words)});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("goes on from step")) << finished.output;
  EXPECT_EQ(history("over").back().at("why"), "completed");
  expect_same_bits("calm", "left");
  expect_nothing_left();
}

TEST_F(OwnLoop, WithoutFaultsIsComplete) {
  const Finished finished = misbehave("none");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json::array({"completed"})) << finished.output;
  EXPECT_EQ(history("end")[0].at("step"), 30);
  EXPECT_EQ(steps(), "30");
}

TEST_F(OwnLoop, HasOnlyRanksThatDivideItsShards) {
  const Finished none =
      run(command({"--min", "5", "--max", "5", "--shards", "12"}, own_loop("none")));
  EXPECT_EQ(none.exit_code, 2) << none.output;
  EXPECT_TRUE(none.says("--shards 12 needs a number of ranks that divides it")) << none.output;
  const Finished four =
      run(command({"--min", "1", "--max", "5", "--shards", "12"}, own_loop("none")));
  EXPECT_EQ(four.exit_code, 0) << four.output;
  EXPECT_EQ(all("start", "ranks"), Json::array({4})) << four.output;
}

TEST_F(OwnLoop, ThatIgnoresARequestIsKilledAfterAWhileAndSaidToBe) {
  const auto words =
      command({"--min", "2", "--max", "2", "--save-within", "1.5"}, own_loop("ignore"));
  const Finished finished =
      run({"sh", "-c",
           quoted(words) + "& pid=$!; until [ -e " + scratch_.file("state/steps") +
               " ]; do sleep 0.02; done; sleep 0.5; kill -TERM $pid; wait $pid"});
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_EQ(all("end", "why"), Json::array({"did not stop"})) << finished.output;
  EXPECT_TRUE(finished.says("asked to save and end, it went on for")) << finished.output;
  EXPECT_TRUE(finished.says("stopped on request, but not saved")) << finished.output;
  expect_nothing_left();
}

TEST_F(OwnLoop, ThatEndsWithZeroButIsNotCompleteHasFailed) {
  const Finished finished = misbehave("zero", {"--restarts", "10"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;  // each start comes 4 steps further
  EXPECT_EQ(all("end", "why")[0], "failure") << finished.output;
  EXPECT_EQ(all("end", "why").back(), "completed") << finished.output;
  EXPECT_FALSE(finished.says("starts again in")) << "it comes further each time, so at once\n"
                                                 << finished.output;
  EXPECT_TRUE(finished.says("the program has not said that it is complete")) << finished.output;
  EXPECT_EQ(steps(), "30");
}

TEST_F(OwnLoop, WithAnUnknownExitCodeIsStartedAgainButNotTwiceAtOneStep) {
  const Finished once = misbehave("seven");
  EXPECT_EQ(once.exit_code, 0) << once.output;
  EXPECT_EQ(all("end", "why"), Json({"failure", "completed"})) << once.output;
  EXPECT_TRUE(once.says("a rank ended with exit code 7")) << once.output;

  fs::remove_all(dir());
  fs::remove_all(scratch_.file("state"));
  fs::create_directories(scratch_.file("state/steps"));  // the state cannot be written
  const Finished twice = misbehave("sevens");
  EXPECT_EQ(twice.exit_code, 1) << twice.output;
  EXPECT_TRUE(twice.says("not started again: it has failed twice")) << twice.output;
}

TEST_F(OwnLoop, ThatCrashesAtEachStartIsGivenUpWithASentence) {
  const Finished finished = misbehave("crash", {"--restarts", "2"});
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"killed", "killed", "killed"})) << finished.output;
  EXPECT_TRUE(finished.says("giving up: more than 2 failures")) << finished.output;
  EXPECT_TRUE(finished.says("no start has made a train::StopRequest")) << finished.output;
}

TEST_F(OwnLoop, WhoseRankComesToAStopIsStartedAgain) {
  const Finished finished = misbehave("hang", {"--hang-after", "4"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"hung", "completed"})) << finished.output;
  EXPECT_EQ(history("end")[0].at("blamed_ranks"), Json::array({1})) << finished.output;
}

TEST_F(OwnLoop, APlainProgramIsStartedAgainUntilItReturnsZero) {
  const Finished finished = misbehave("plain");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"killed", "completed"})) << finished.output;
  EXPECT_EQ(steps(), "30");
}

TEST_F(OwnLoop, TwoSupervisorsDoNotShareAFolder) {
  const auto words = command({"--min", "2", "--max", "2"}, own_loop("none"));
  const Finished finished =
      run({"sh", "-c",
           quoted(words) + "& pid=$!; until [ -e " + dir() + "/run.lock ]; do sleep 0.02; done; " +
               quoted(words) + "; echo second=$?; wait $pid"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("second=2")) << finished.output;
}

TEST_F(OwnLoop, IsNotWhatAnApplicationHasWhoseDeckHasAnotherName) {
  const std::string deck = scratch_.write("deck", read_file(source("inputs/synthetic.toml")));
  const Finished finished =
      run(command({"--min", "2", "--max", "2"}, {built("apps/classify"), deck}));
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says("a name that ends in .toml")) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
