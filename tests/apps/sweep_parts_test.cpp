// Plans, decisions and refusals of `lockstep sweep`, without a training.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <optional>
#include <string>
#include <support/message_of.hpp>
#include <support/process.hpp>
#include <sweep/folder.hpp>
#include <sweep/halving.hpp>
#include <sweep/job_script.hpp>
#include <sweep/keeper.hpp>
#include <sweep/search.hpp>
#include <sweep/shares.hpp>
#include <sweep/table.hpp>
#include <sweep/trial.hpp>
#include <thread>
#include <vector>

namespace lockstep::sweep {
namespace {

using test::message_of;
using test::ScratchFolder;
using Strings = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SweepSearch, AGridIsEveryCombinationWithTheLastKeyFastest) {
  const std::vector<Axis> grid{parse_grid("a.x=1,2"), parse_grid("a.y=\"p,q\",[3, 4]")};
  Strings trials;
  for (const Settings& settings : all_settings(grid, {}, 0, 0))
    trials.push_back(in_words(settings));
  EXPECT_EQ(trials, (Strings{"a.x=1 a.y=\"p,q\"", "a.x=1 a.y=[3, 4]", "a.x=2 a.y=\"p,q\"",
                             "a.x=2 a.y=[3, 4]"}));
  EXPECT_EQ(parse_grid(R"(a.x="1\",2",'3,4')").values, (Strings{R"("1\",2")", "'3,4'"}));
}

// Numbers of an earlier build: other numbers would change a seed's trials.
TEST(SweepSearch, DrawsAreTheSameOnEveryMachineAndIndependentOfOtherKeys) {
  const auto rate = parse_random("optimizer.lr=log:1e-4:1");
  const auto width = parse_random("model.width=int:1:4");
  Strings rates;
  for (int draw = 0; draw < 3; ++draw) rates.push_back(rate.value(3, draw));
  EXPECT_EQ(rates, (Strings{"0.0569562", "0.177573", "0.427"}));
  EXPECT_NE(rate.value(4, 0), rates[0]);
  const auto both = all_settings({parse_grid("a.x=1,2")}, {width, rate}, 3, 3);
  ASSERT_EQ(both.size(), 6U);
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_EQ(both[i][2].second, rates[i % 3]) << "each combination has the same draws";
    EXPECT_EQ(both[i][0].second, i < 3 ? "1" : "2");
  }
  std::vector<int> seen(5, 0);
  for (int draw = 0; draw < 400; ++draw) ++seen.at(std::stoul(width.value(1, draw)));
  EXPECT_EQ(seen[0], 0);
  for (int value = 1; value <= 4; ++value) EXPECT_GT(seen[value], 60) << value;
  const auto share = parse_random("optimizer.momentum=uniform:0:1");
  double sum = 0, least = 1, most = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    const double value = std::stod(share.value(1, draw));
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
  EXPECT_GE(least, 0);
  EXPECT_LE(most, 1);
  EXPECT_EQ(parse_random("a.x=uniform:100:100.0000001").value(1, 1), "100.0") << "a TOML float";
}

TEST(SweepSearch, RefusesMalformedArguments) {
  const auto grid = [](const std::string& text) {
    return message_of<InputError>([&] { static_cast<void>(parse_grid(text)); });
  };
  for (const char* bad : {"lr=1", "optimizer.lr", "optimizer.lr="})
    EXPECT_TRUE(has(grid(bad), "expected TABLE.KEY=VALUES")) << bad;
  EXPECT_TRUE(has(grid("optimizer.lr=1,,2"), "between two commas is missing"));
  const auto random = [](const std::string& text) {
    return message_of<InputError>([&] { static_cast<void>(parse_random(text)); });
  };
  for (const char* bad : {"a.x=1:2", "a.x=log:1", "a.x=log:a:2", "a.x=log:1:nan", "a.x=exp:1:2"})
    EXPECT_TRUE(has(random(bad), "expected KEY=log:LOW:HIGH")) << bad;
  EXPECT_TRUE(has(random("a.x=log:0:1"), "LOW above 0"));
  EXPECT_TRUE(has(random("a.x=uniform:2:1"), "LOW is not below HIGH"));
  EXPECT_TRUE(has(random("a.x=int:0.5:1"), "whole numbers"));
  const auto all = [](const std::vector<Axis>& axes, const std::vector<Distribution>& draws,
                      int number) {
    return message_of<InputError>([&] { static_cast<void>(all_settings(axes, draws, number, 0)); });
  };
  const Axis axis = parse_grid("a.x=1,2");
  const Distribution draw = parse_random("a.x=int:1:2");
  EXPECT_TRUE(has(all({axis, axis}, {}, 0), "a.x is given twice"));
  EXPECT_TRUE(has(all({axis}, {draw}, 2), "a.x is given twice"));
  EXPECT_TRUE(has(all({}, {}, 0), "name the keys to vary"));
  EXPECT_TRUE(has(all({axis}, {}, 2), "there is no --random"));
  EXPECT_TRUE(has(all({}, {draw}, 0), "needs --trials"));
  EXPECT_TRUE(has(all({axis}, {parse_random("a.y=int:1:2")}, 5001), "more than 10000 trials"));
}

// Li et al. 2018, table 1: R = 81, eta = 3, brackets s = 4 and s = 3.
TEST(SweepHalving, RungsAreThoseOfHyperbandsTable) {
  const auto of = [](std::size_t trials, std::int64_t first, std::int64_t whole) {
    return rungs(trials, {.first = first, .eta = 3}, whole);
  };
  const std::vector<Rung> fourth{{81, 1}, {27, 3}, {9, 9}, {3, 27}, {1, 0}};
  EXPECT_EQ(of(81, 1, 81), fourth);
  EXPECT_EQ(of(81, 1, 0), fourth) << "the whole training is not known in steps";
  EXPECT_EQ(of(27, 3, 81), (std::vector<Rung>{{27, 3}, {9, 9}, {3, 27}, {1, 0}}));
  EXPECT_EQ(of(27, 3, 20), (std::vector<Rung>{{27, 3}, {9, 9}, {3, 0}})) << "27 epochs are all";
  EXPECT_EQ(of(10, 1, 100), (std::vector<Rung>{{10, 1}, {3, 3}, {1, 0}}));
  EXPECT_EQ(of(2, 1, 100), (std::vector<Rung>{{2, 0}}));
  EXPECT_EQ(rungs(4, {.first = 5, .eta = 2}, 0), (std::vector<Rung>{{4, 5}, {2, 10}, {1, 0}}));
}

TEST(SweepHalving, TheBestArePromotedAndTrialsWithoutAMetricNever) {
  using Indices = std::vector<std::size_t>;
  const std::vector<std::optional<double>> metrics{3.0, std::nullopt, 1.0, 2.0, 1.0};
  EXPECT_EQ(best(metrics, Better::smaller, 3), (Indices{2, 4, 3}));
  EXPECT_EQ(best(metrics, Better::larger, 2), (Indices{0, 3}));
  EXPECT_EQ(best(metrics, Better::smaller, 9), (Indices{2, 4, 3, 0}));
  EXPECT_TRUE(best({std::nullopt}, Better::smaller, 1).empty());
}

TEST(SweepHalving, TheFirstRungIsInEpochsOrSteps) {
  EXPECT_EQ(parse_halving("epochs:2", 4).first, 2);
  EXPECT_EQ(parse_halving("epochs:2", 4).eta, 4);
  EXPECT_EQ(parse_halving("steps:500", 3).unit, Halving::Unit::steps);
  for (const char* bad : {"2", "epochs", "epochs:0", "epochs:1.5", "hours:1", "steps:"}) {
    EXPECT_TRUE(has(message_of<InputError>([&] { static_cast<void>(parse_halving(bad, 3)); }),
                    "expected epochs:N or steps:N"))
        << bad;
  }
}

std::string hosts_of(const std::vector<Share>& shares) {
  std::string text;
  for (const Share& share : shares) {
    for (const auto& host : share.placement.hosts)
      text += host.name + std::to_string(host.slots) + " ";
    text += "| ";
  }
  return text;
}

TEST(SweepShares, ATrialIsOnOneHostWhereThatHasRoom) {
  Division input{.hosts = {{"a", 4}, {"b", 2}, {"c", 2}}, .ranks = 2};
  EXPECT_EQ(hosts_of(divide(input)), "a2 | a2 | b2 | c2 | ");
  input.ranks = 3;
  EXPECT_EQ(hosts_of(divide(input)), "a3 | a1 b2 | ");
  input.parallel = 1;
  EXPECT_EQ(hosts_of(divide(input)), "a3 | ");
  const auto refusal = [&] {
    return message_of<InputError>([&] { static_cast<void>(divide(input)); });
  };
  input.parallel = 3;
  EXPECT_TRUE(has(refusal(), "no room for 3 trials of 3 ranks at a time on 8 slots"));
  input.parallel = 0;
  input.ranks = 9;
  EXPECT_TRUE(has(refusal(), "no room for 1 trial of 9 ranks"));
  EXPECT_TRUE(has(refusal(), "or give the sweep more hosts or tasks"));
  input.cores = {0, 1};
  EXPECT_TRUE(has(refusal(), "or share cores with --oversubscribe"));
  input.cores = {};
  input.oversubscribe = true;
  EXPECT_TRUE(has(refusal(), "--oversubscribe is for one machine"));
}

TEST(SweepShares, OnOneMachineEachShareHasCoresOfItsOwn) {
  Division input{.hosts = {{"here", 2}}, .ranks = 1, .threads = 2, .cores = {0, 1, 4, 5}};
  const auto shares = divide(input);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].cores, (std::vector<int>{0, 1}));
  EXPECT_EQ(shares[1].cores, (std::vector<int>{4, 5}));
  input.oversubscribe = true;
  input.parallel = 3;
  input.ranks = 7;
  const auto crowded = divide(input);
  EXPECT_EQ(hosts_of(crowded), "here7 | here7 | here7 | ");
  EXPECT_TRUE(crowded[0].cores.empty());
}

Trial trial_of(int index, std::vector<double> rungs, const std::string& failed = "") {
  Trial trial{.index = index, .settings = {{"optimizer.lr", std::to_string(index)}}};
  trial.rungs = std::move(rungs);
  trial.failed = failed;
  return trial;
}

TEST(SweepTable, TheFurthestComeFirstThenTheBestAndFailuresLast) {
  const std::vector<Trial> trials{trial_of(0, {1.0}), trial_of(1, {}, "no room"),
                                  trial_of(2, {5.0, 4.0}), trial_of(3, {2.0, 3.0}),
                                  trial_of(4, {0.5}, "killed")};
  EXPECT_EQ(ranking(trials, Better::smaller), (std::vector<std::size_t>{3, 2, 0, 1, 4}));
  EXPECT_EQ(ranking(trials, Better::larger), (std::vector<std::size_t>{2, 3, 0, 1, 4}));
  EXPECT_EQ(table(trials, "test_loss", Better::smaller, 2),
            "   trial  optimizer.lr  test_loss  rung  epochs  steps  seconds\n"
            "1      3             3          3   2/2       0      0      0.0\n"
            "2      2             2          4   2/2       0      0      0.0\n"
            "3      0             0          1   1/2       0      0      0.0\n"
            "-      1             1          -   0/2       0      0      0.0  failed: no room\n"
            "-      4             4          -   1/2       0      0      0.0  failed: killed\n");
}

/// A run's folder as it is left behind.
struct RunFolder {
  ScratchFolder scratch;
  Json summary{{"completed", false}, {"epochs", 3},           {"steps", 30},      {"ranks", 2},
               {"wall_s", 1.5},      {"stopped_by", nullptr}, {"test_loss", 0.25}};

  [[nodiscard]] Trial end(const Ended& ended, Rung rung = {1, 0},
                          const std::string& metric = "test_loss") const {
    scratch.write("summary.json", summary.dump());
    Trial trial;
    enter(trial, look_at(scratch.path(), metric), ended, rung, Halving::Unit::epochs, metric, 2);
    return trial;
  }
};

TEST(SweepTrial, IsDoneWhereItsSummarySaysSo) {
  RunFolder run;
  EXPECT_FALSE(look_at(run.scratch.file("none"), "test_loss"));
  run.summary["completed"] = true;
  EXPECT_EQ(run.end({.code = 0}).rungs, (std::vector<double>{0.25}));
  EXPECT_TRUE(run.end({.code = 9}).whole) << "mpiexec's exit code tells nothing";
  EXPECT_EQ(run.end({.code = 0}, {1, 0}, "test_r2").failed,
            "its summary.json has no test_r2; it has test_loss");
  run.summary["test_loss"] = nullptr;
  EXPECT_EQ(run.end({.code = 0}).failed,
            "test_loss of summary.json is null: not measured, or not finite");
  run.summary["validation_loss"] = 0.5;
  EXPECT_TRUE(has(run.end({.code = 0}).failed, "not finite; it has validation_loss"));
  run.summary["ranks"] = 1;
  EXPECT_TRUE(has(run.end({.code = 0}).failed, "on 1 rank: its MPI is not the launcher's"));
}

TEST(SweepTrial, ARungIsOverAtItsBudgetAlone) {
  RunFolder run;
  run.summary["stopped_by"] = "run.stop_after_epochs";
  const Trial reached = run.end({.code = 75}, {1, 3});
  EXPECT_EQ(reached.rungs.size(), 1U);
  EXPECT_FALSE(reached.whole);
  EXPECT_EQ(run.end({.code = 75}, {1, 4}).stopped, "run.stop_after_epochs");
  run.summary["stopped_by"] = "SIGTERM";
  const Trial stopped = run.end({.code = 0}, {1, 3});
  EXPECT_TRUE(stopped.rungs.empty());
  EXPECT_EQ(stopped.stopped, "SIGTERM");
  EXPECT_EQ(run.end({.code = 75, .was_stopped = true}).stopped, "with the sweep");
}

TEST(SweepTrial, AFailureHasItsReasonAndIsTriedAgainUnlessItIsTheTrialsOwn) {
  const RunFolder run;
  const Trial diverged = run.end({.code = 1, .sentence = "the loss is nan"});
  EXPECT_EQ(diverged.failed, "the loss is nan");
  EXPECT_FALSE(diverged.tried_again);
  EXPECT_FALSE(run.end({.code = 2, .sentence = "bad data"}).tried_again);
  EXPECT_TRUE(run.end({.code = 3, .sentence = "rank 1 is lost"}).tried_again);
  const Trial killed = run.end({.code = 9, .signal = SIGKILL});
  EXPECT_EQ(killed.failed, "a rank was ended by signal 9 (Killed), perhaps out of memory");
  EXPECT_TRUE(killed.tried_again);
  EXPECT_EQ(run.end({.code = 1, .sentence = "x", .out_of_memory = true}).failed,
            "out of memory, as Slurm reports");
  EXPECT_EQ(run.end({.code = 7, .words = "mpiexec: no"}).failed,
            "ended with exit code 7: mpiexec: no");
  Trial again;
  again.take(killed.json());
  EXPECT_EQ(again.json(), killed.json());
}

TEST(SweepTrial, ItsReasonIsTheProgramsFirstSentenceWithoutTheRank) {
  const auto reason = [](const char* line) { return reason_on(line, "classify", "a.toml"); };
  EXPECT_EQ(reason("classify: rank 1 of 2 (vm): the loss is nan"), "the loss is nan");
  EXPECT_EQ(reason("classify: --set: bad"), "--set: bad");
  EXPECT_EQ(reason("classify: a.toml on 2 ranks, 1 thread each"), "");
  EXPECT_EQ(reason("warning: something"), "");
  EXPECT_EQ(reason("classify train: rank 0 of 2 (vm): the loss is nan"), "the loss is nan");
  EXPECT_EQ(reason("classify train: a.toml on 2 ranks, 1 thread each"), "");
  EXPECT_EQ(reason("classify sample: no"), "");
}

Keeper::Start start_of(const ScratchFolder& scratch, const std::string& script) {
  return {.command =
              [script](int) {
                return elastic::Launcher::Command{{"sh", "-c", script}, {}};
              },
          .end_elsewhere = [](int) {},
          .cores = {},
          .run_folder = scratch.file("run"),
          .output = scratch.file("output.txt"),
          .program = "classify",
          .deck = "a.toml"};
}

Ended wait_for(Keeper& keeper) {
  constexpr double limit_s = 30;
  const auto begun = Clock::now();
  while (seconds_since(begun) < limit_s) {
    if (auto ended = keeper.ended()) return *ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

TEST(SweepKeeper, SeveralTrialsRunAtATimeAndEndByThemselves) {
  const ScratchFolder first, second;
  Keeper waits(start_of(first, "while [ ! -e " + second.file("done") + " ]; do sleep 0.01; done"));
  Keeper fails(start_of(
      second, "echo 'classify: rank 0 of 2 (vm): no'; touch " + second.file("done") + "; exit 1"));
  const Ended failed = wait_for(fails);
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.sentence, "no");
  EXPECT_FALSE(failed.was_stopped);
  EXPECT_EQ(test::read_file(second.file("output.txt")), "classify: rank 0 of 2 (vm): no\n");
  EXPECT_EQ(wait_for(waits).code, 0) << "the end of one trial does not end another";
}

TEST(SweepKeeper, AStopIsASignalThatSavesAndNothingIsLeft) {
  const ScratchFolder scratch;
  Keeper keeper(start_of(scratch, "trap 'echo saved; exit 75' USR1; touch " + scratch.file("up") +
                                      "; while true; do sleep 0.01; done"));
  while (!std::filesystem::exists(scratch.file("up")))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(keeper.ended());
  keeper.stop();
  const Ended ended = wait_for(keeper);
  EXPECT_TRUE(ended.was_stopped);
  EXPECT_EQ(ended.code, 75);
  EXPECT_EQ(ended.words, "saved");
}

TEST(SweepKeeper, AStopRightAfterTheStartIsNotLost) {
  for (int i = 0; i < 30; ++i) {
    const ScratchFolder scratch;
    Keeper keeper(start_of(scratch, "exec sleep 100"));
    keeper.stop();
    const Ended ended = wait_for(keeper);
    EXPECT_TRUE(ended.was_stopped) << ended.words;
  }
}

TEST(SweepFolder, AnotherSweepIsNamedByWhatDiffers) {
  const Json one{{"deck_hash", "a"},      {"program", "classify"}, {"settings", {{{"a.x", "1"}}}},
                 {"metric", "test_loss"}, {"mode", "min"},         {"halving", ""}};
  EXPECT_EQ(difference(one, one), "");
  for (const auto& [key, said] : {std::pair{"deck_hash", "another deck or --set"},
                                  {"program", "another program"},
                                  {"settings", "another grid or other draws"},
                                  {"metric", "another metric"},
                                  {"mode", "another mode"},
                                  {"halving", "another halving"}}) {
    Json other = one;
    other[key] = "else";
    EXPECT_EQ(difference(one, other), said);
  }
}

TEST(SweepJobScript, IsAnArrayWithATrialATaskOrOneJobWithHalving) {
  Options options{.ranks = 4, .parallel = 3};
  options.arguments = {"lockstep", "sweep", "my deck.toml", "--script", "slurm", "-o", "d"};
  const auto script = [&] {
    const std::string text = job_script(options, 6, 2);
    const ScratchFolder scratch;
    const test::Finished checked = test::run({"bash", "-n", scratch.write("job.sh", text)});
    EXPECT_EQ(checked.exit_code, 0) << checked.output << text;
    EXPECT_TRUE(has(text, "exec lockstep sweep 'my deck.toml' -o d")) << text;
    return text;
  };
  const std::string array = script();
  EXPECT_TRUE(has(array, "--array=0-5\n#SBATCH --ntasks=4\n#SBATCH --cpus-per-task=2\n"));
  EXPECT_TRUE(has(array, "-o d --only \"$SLURM_ARRAY_TASK_ID\"\n"));
  options.halving = "epochs:1";
  const std::string one = script();
  EXPECT_TRUE(has(one, "#SBATCH --ntasks=12\n#SBATCH --cpus-per-task=2\n"));
  EXPECT_FALSE(has(one, "--array"));
}

}  // namespace
}  // namespace lockstep::sweep
