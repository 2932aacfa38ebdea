// What `lockstep scaling` plans, works out and refuses, without starting anything.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <lockstep/base/error.hpp>
#include <regex>
#include <scaling/analysis.hpp>
#include <scaling/bus_bandwidth.hpp>
#include <scaling/compare.hpp>
#include <scaling/job_script.hpp>
#include <scaling/launch.hpp>
#include <scaling/measurement.hpp>
#include <scaling/plan.hpp>
#include <scaling/report.hpp>
#include <scaling/store.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

namespace lockstep::scaling {
namespace {

using elastic::Hosts;
using test::message_of;
using test::ScratchFolder;

std::string refusal(const PlanInput& input) {
  return message_of<InputError>([&] { static_cast<void>(make_plan(input)); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ScalingPlan, MeasuresEverySizeOnceBeforeAnyIsRepeated) {
  const auto plan =
      make_plan({.ranks = {1, 2}, .repeats = 2, .batch_size = 128, .hosts = {{"here", 2}}});
  std::vector<std::string> names;
  for (const Point& point : plan) names.push_back(point.name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"1_ranks_1_nodes_benchmarks", "2_ranks_1_nodes_benchmarks",
                                      "1_ranks_1_nodes_repeat_1", "2_ranks_1_nodes_repeat_1",
                                      "1_ranks_1_nodes_repeat_2", "2_ranks_1_nodes_repeat_2"}));
  EXPECT_EQ(plan.at(3).batch_size, 128);
  EXPECT_EQ(make_plan({.ranks = {1, 2}, .repeats = 2, .hosts = {{"here", 2}}, .benchmarks = false})
                .size(),
            4U);
}

TEST(ScalingPlan, TheBatchGrowsWithTheRanksInWeakScalingAlone) {
  PlanInput input{.ranks = {4, 2, 8}, .batch_size = 128, .hosts = {{"here", 8}}};
  input.benchmarks = false;
  for (const Point& point : make_plan(input)) EXPECT_EQ(point.batch_size, 128);
  input.mode = Mode::weak;
  const auto plan = make_plan(input);
  EXPECT_EQ(plan.at(0).batch_size, 256);
  EXPECT_EQ(plan.at(1).batch_size, 128);
  EXPECT_EQ(plan.at(2).batch_size, 512);
  input.ranks = {3, 4};
  EXPECT_TRUE(has(refusal(input), "no whole number for 4 ranks"));
}

TEST(ScalingPlan, RanksAreOnAsFewNodesAsHoldThemOrEvenlyOnThoseThatAreNamed) {
  const Hosts hosts{{"a", 2}, {"b", 4}, {"c", 4}};
  const auto placed = [&](const std::vector<int>& nodes, int ranks) {
    return make_plan({.ranks = {ranks}, .nodes = nodes, .hosts = hosts, .benchmarks = false})
        .at(0)
        .placement.hosts;
  };
  EXPECT_EQ(placed({}, 2), (Hosts{{"a", 2}}));
  EXPECT_EQ(placed({}, 5), (Hosts{{"a", 2}, {"b", 3}}));
  EXPECT_EQ(placed({3}, 4), (Hosts{{"a", 2}, {"b", 1}, {"c", 1}}));
  const auto each =
      make_plan({.ranks = {2, 2}, .nodes = {1, 2}, .hosts = hosts, .benchmarks = false});
  EXPECT_EQ(each.at(1).nodes(), 2);
  const PlanInput bad{.ranks = {6}, .nodes = {2}, .hosts = hosts};
  EXPECT_TRUE(has(refusal(bad), "a would hold 3 of them, and has room for 2"));
  EXPECT_TRUE(has(refusal({.ranks = {4}, .nodes = {4}, .hosts = hosts}), "there are 3 here"));
  EXPECT_TRUE(has(refusal({.ranks = {1}, .nodes = {2}, .hosts = hosts}), "on 1 nodes at most"));
  EXPECT_TRUE(has(refusal({.ranks = {1, 2, 3}, .nodes = {1, 2}, .hosts = hosts}), "one for each"));
  EXPECT_TRUE(has(refusal({.ranks = {2, 2}, .hosts = hosts}), "twice"));
  EXPECT_TRUE(has(refusal({.ranks = {}, .hosts = hosts}), "--ranks"));
}

TEST(ScalingPlan, MoreRanksThanCoresAreRefusedUnlessThatIsWanted) {
  PlanInput input{.ranks = {2, 4}, .hosts = {{"here", 2}}, .benchmarks = false};
  EXPECT_TRUE(has(refusal(input), "4 ranks are more than the 2 that there are cores for"));
  EXPECT_TRUE(has(refusal(input), "--oversubscribe"));
  input.oversubscribe = true;
  const auto plan = make_plan(input);
  EXPECT_FALSE(plan.at(0).oversubscribed);
  EXPECT_TRUE(plan.at(1).oversubscribed);
  EXPECT_EQ(plan.at(1).ranks(), 4);
  // On several machines a slot is what the batch system gave.
  input.hosts = {{"a", 1}, {"b", 1}};
  EXPECT_TRUE(has(refusal(input), "on one machine"));
}

std::string row(const char* kind, int step, double seconds, double samples, double late) {
  std::ostringstream text;
  text.precision(17);
  text << R"({"kind":")" << kind << R"(","step":)" << step << R"(,"seconds":)" << seconds
       << R"(,"samples_per_s":)" << samples / seconds << R"(,"time_min_mean_max_s":{)";
  for (const char* phase :
       {"compute", "communication", "communication_work", "data", "other", "forward", "backward"})
    text << '"' << phase << R"(":[0,)" << seconds / 4 << ",9],";
  text << R"("communication_late":[0,)" << late << ",9]}}\n";
  return text.str();
}

// Epochs of 6 steps, a row every 4: the last two steps of each are in the epoch's row alone.
TEST(ScalingSample, EveryStepIsInOneInterval) {
  const auto intervals = intervals_of(row("step", 4, 4, 40, 0.5) + row("epoch", 6, 6.5, 60, 0.75) +
                                      "{\"kind\":\"eval\",\"step\":6}\n" +
                                      row("step", 8, 2, 20, 0) + row("step", 12, 4, 40, 0) +
                                      row("epoch", 12, 6, 60, 0) + R"({"kind":"step","st)");
  ASSERT_EQ(intervals.size(), 4U);
  const std::vector<std::int64_t> first{1, 5, 7, 9}, steps{4, 2, 2, 4};
  const std::vector<double> seconds{4, 2.5, 2, 4}, late{0.5, 0.25, 0, 0}, samples{40, 20, 20, 40};
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    EXPECT_EQ(intervals[i].first_step, first[i]);
    EXPECT_EQ(intervals[i].steps, steps[i]);
    EXPECT_DOUBLE_EQ(intervals[i].seconds, seconds[i]);
    EXPECT_DOUBLE_EQ(intervals[i].late, late[i]);
    EXPECT_NEAR(intervals[i].samples, samples[i], 1e-9);
  }
  const auto some = measured(intervals, 4, 4);
  ASSERT_EQ(some.size(), 2U);
  const Interval all = total(some);
  EXPECT_EQ(all.first_step, 5);
  EXPECT_EQ(all.last_step(), 8);
  EXPECT_DOUBLE_EQ(all.seconds, 4.5);
  EXPECT_DOUBLE_EQ(all.compute, 4.5 / 4);
  EXPECT_EQ(total(measured(intervals, 5, 100)).steps, 6);  // an interval with a warm-up step goes
}

/// 10 steps of `ms` each, half of it exposed, of `batch` samples.
Result result(int ranks, int repeat, double ms, std::int64_t batch = 100) {
  const double seconds = ms * 10 / 1e3;
  return {.ranks = ranks,
          .nodes = 1,
          .repeat = repeat,
          .batch_size = batch,
          .intervals = {{.first_step = 1,
                         .steps = 10,
                         .samples = 10.0 * static_cast<double>(batch),
                         .seconds = seconds,
                         .communication = seconds / 2,
                         .data = seconds / 8,
                         .late = seconds / 4}},
          .peak_rss_mib = {60, 60 + ranks}};
}

TEST(ScalingAnalysis, MedianOfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle) {
  const Scatter odd = scatter_of({3, 1, 2}), even = scatter_of({4, 1, 2, 3});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(scatter_of({7}).median, 7);
}

TEST(ScalingAnalysis, StrongScalingIsTimeOverTimeOfTheFewestRanks) {
  const auto sizes = analyse({result(2, 1, 8), result(4, 1, 5), result(2, 2, 10), result(4, 2, 5),
                              result(2, 3, 12), result(4, 3, 4)});
  ASSERT_EQ(sizes.size(), 2U);
  EXPECT_EQ(sizes[0].repeats, 3);
  EXPECT_DOUBLE_EQ(sizes[0].step_ms.median, 10);
  EXPECT_DOUBLE_EQ(sizes[0].step_ms.min, 8);
  EXPECT_DOUBLE_EQ(sizes[0].step_ms.max, 12);
  EXPECT_DOUBLE_EQ(sizes[0].samples_per_s.median, 1e4);
  EXPECT_DOUBLE_EQ(sizes[0].speed_up, 1);
  EXPECT_DOUBLE_EQ(sizes[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(sizes[1].speed_up, 2);
  EXPECT_DOUBLE_EQ(sizes[1].efficiency, 1);
  EXPECT_DOUBLE_EQ(sizes[1].exposed_ms.median, 2.5);
  EXPECT_DOUBLE_EQ(sizes[1].late_ms.median, 1.25);
  EXPECT_DOUBLE_EQ(sizes[1].data_ms.median, 0.625);
  EXPECT_EQ(sizes[1].peak_rss_mib, 64);
}

TEST(ScalingAnalysis, WeakScalingIsSamplesASecondOverThoseOfTheFewestRanks) {
  const auto sizes = analyse({result(1, 1, 10, 100), result(4, 1, 16, 400)});
  EXPECT_DOUBLE_EQ(sizes[1].speed_up, 2.5);
  EXPECT_DOUBLE_EQ(sizes[1].efficiency, 0.625);
}

TEST(ScalingAnalysis, AFailedRepeatIsNamedAndCountsNowhereElse) {
  Result failed = result(2, 2, 1);
  failed.failed = "killed";
  Result never = result(8, 1, 1);
  never.failed = "no memory";
  const auto sizes = analyse({result(2, 1, 8), failed, never});
  EXPECT_EQ(sizes[0].repeats, 1);
  EXPECT_DOUBLE_EQ(sizes[0].step_ms.max, 8);
  EXPECT_EQ(sizes[0].failures, std::vector<std::string>{"killed"});
  EXPECT_EQ(sizes[1].repeats, 0);
  EXPECT_TRUE(has(table(Mode::strong, sizes), "not measured: no memory"));
}

TEST(ScalingAnalysis, ResultsSurviveTheirFiles) {
  Result before = result(2, 3, 8);
  before.oversubscribed = true;
  const Result after = Result::from(Json::parse(before.json().dump()));
  EXPECT_EQ(after.json(), before.json());
  EXPECT_EQ(before.json().at("step_ms"), 8);
  EXPECT_EQ(before.json().at("samples_per_s"), 12500);
  before.failed = "killed";
  EXPECT_EQ(Result::from(before.json()).failed, "killed");
}

// NVIDIA/nccl-tests, doc/PERFORMANCE.md.
TEST(BusBandwidth, IsWhatNcclTestsDefine) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 4), 1);
}

Identity identity() {
  return {.deck = "a.toml",
          .deck_hash = "1234",
          .version = "0.1.0",
          .commit = "abc",
          .cpu = "Zen",
          .cores = 2,
          .host = "here",
          .mode = Mode::strong,
          .program = "classify",
          .batch_size = 128,
          .steps = 10,
          .warmup = 2,
          .threads = 1};
}

/// Every way in which a study may not be compared, and what is said of it.
struct Unlike {
  void (*change)(Identity&);
  const char* words;
  const char* across;  ///< what bears it; "": nothing
};
const std::vector<Unlike> unlike{
    {[](Identity& one) { one.deck_hash = "5678"; }, "another deck (1234; now 5678)", "deck"},
    {[](Identity& one) { one.version = "0.2.0"; }, "another version", "version"},
    {[](Identity& one) { one.commit = "def"; },
     "another version (0.1.0, commit abc; now 0.1.0, commit def)", "version"},
    {[](Identity& one) { one.cpu = "Xeon"; }, "another machine (Zen, 2 cores; now Xeon, 2 cores)",
     "machine"},
    {[](Identity& one) { one.cores = 4; }, "another machine", "machine"},
    {[](Identity& one) { one.mode = Mode::weak; }, "another mode (strong; now weak)", ""},
    {[](Identity& one) { one.program = "gpt"; }, "another program", ""},
    {[](Identity& one) { one.steps = 20; }, "another number of measured steps (10; now 20)", ""},
    {[](Identity& one) { one.warmup = 0; }, "another number of warm-up steps", ""},
    {[](Identity& one) { one.threads = 2; }, "another number of cores a rank", ""},
};

TEST(ScalingStore, RefusesToGoOnWithWhatCannotBeCompared) {
  for (const Unlike& one : unlike) {
    const ScratchFolder scratch;
    Identity other = identity();
    one.change(other);
    { const Store first(scratch.path(), identity()); }
    { const Store again(scratch.path(), identity()); }
    const std::string said =
        message_of<InputError>([&] { const Store second(scratch.path(), other); });
    EXPECT_TRUE(has(said, one.words)) << said;
    EXPECT_TRUE(has(said, "name another --output")) << said;
  }
}

TEST(ScalingStore, RefusesAFolderOfSomethingElseAndOneThatAnotherProcessHas) {
  const ScratchFolder scratch;
  scratch.write("thesis.tex", "");
  const auto open = [&](const std::string& folder) {
    return message_of<InputError>([&] { const Store store(folder, identity()); });
  };
  EXPECT_TRUE(has(open(scratch.path()), "other files than a study's: thesis.tex"));
  EXPECT_TRUE(has(open(scratch.file("thesis.tex")), "is not a folder"));
  const Store held(scratch.file("study"), identity());
  EXPECT_FALSE(has(open(scratch.file("study")), "nothing was thrown"));
  { const Store damaged(scratch.file("damaged"), identity()); }
  scratch.write("damaged/study.json", "{}");
  EXPECT_TRUE(has(open(scratch.file("damaged")), "not a file of a scaling study"));
}

TEST(ScalingStore, KnowsAPointOnceItIsPut) {
  const ScratchFolder scratch;
  const Store store(scratch.path(), identity());
  EXPECT_FALSE(store.known("2_ranks_1_nodes_repeat_1"));
  store.put("2_ranks_1_nodes_repeat_1", {{"ranks", 2}});
  EXPECT_EQ(store.known("2_ranks_1_nodes_repeat_1"), Json({{"ranks", 2}}));
}

Study study(const std::vector<Result>& results) { return {identity(), results}; }

TEST(ScalingCompare, FlagsWhatLiesOutsideTheScatterOfBoth) {
  const Study before = study({result(1, 1, 10), result(1, 2, 12), result(2, 1, 6), result(2, 2, 8),
                              result(4, 1, 4), result(8, 1, 1)});
  const Study now = study(
      {result(1, 1, 13), result(1, 2, 14), result(2, 1, 8), result(2, 2, 10), result(4, 1, 2)});
  const auto changes = compare(before, now);
  ASSERT_EQ(changes.size(), 3U);  // nobody measured 8 ranks twice
  EXPECT_DOUBLE_EQ(changes[0].ratio, 13.5 / 11);
  EXPECT_TRUE(changes[0].is_outside_scatter);
  EXPECT_DOUBLE_EQ(changes[1].ratio, 9.0 / 7);
  EXPECT_FALSE(changes[1].is_outside_scatter);
  EXPECT_DOUBLE_EQ(changes[2].ratio, 0.5);
  EXPECT_FALSE(changes[2].is_outside_scatter);  // of one repeat no scatter is known
  EXPECT_TRUE(has(table(changes), "1.227  slower")) << table(changes);
  EXPECT_TRUE(has(table(compare(now, before)), "faster"));
}

TEST(ScalingCompare, RefusesWhatCannotBeComparedButForWhatIsToBe) {
  const Study before = study({result(1, 1, 10)});
  for (const Unlike& one : unlike) {
    Study now = before;
    one.change(now.identity);
    const std::string said =
        message_of<InputError>([&] { static_cast<void>(compare(before, now)); });
    EXPECT_TRUE(has(said, one.words)) << said;
    const std::string meant = one.across;
    EXPECT_TRUE(meant.empty() ? !has(said, "--across") : has(said, "; --across " + meant)) << said;
    for (const std::string across : {"deck", "version", "machine"}) {
      const std::string then =
          message_of<InputError>([&] { static_cast<void>(compare(before, now, across)); });
      EXPECT_EQ(then == "nothing was thrown", across == one.across) << across << ": " << then;
    }
  }
  const auto said = [&](const Study& now) {
    return message_of<InputError>([&] { static_cast<void>(compare(before, now)); });
  };
  EXPECT_TRUE(has(said(study({result(2, 1, 10)})), "no size was measured in both"));
  Study crowded = before;
  crowded.results[0].oversubscribed = true;
  EXPECT_TRUE(has(said(crowded), "more than the cores in one of them only"));
  Study larger = before;
  larger.results[0].batch_size *= 2;
  EXPECT_TRUE(has(said(larger), "1 ranks computed batches of"));
}

TEST(ScalingReport, JsonHoldsEverySampleAndIsWhatCompareReads) {
  const ScratchFolder scratch;
  const std::vector<Result> results{result(1, 1, 10), result(2, 1, 6), result(1, 2, 12)};
  scratch.write("scaling.json", text_of(study_json(identity(), results, Json::array())));
  for (const std::string& name : {scratch.path(), scratch.file("scaling.json")}) {
    const Study read = read_study(name);
    ASSERT_EQ(read.results.size(), 3U);
    EXPECT_EQ(read.results[2].json(), results[2].json());
    EXPECT_EQ(read.identity.json(), identity().json());
  }
  const Json json = read_study_file(scratch.file("scaling.json"));
  EXPECT_EQ(json.at("sizes").at(0).at("step_ms").at("median"), 11);
  scratch.write("other.json", "[]");
  EXPECT_TRUE(has(
      message_of<InputError>([&] { static_cast<void>(read_study(scratch.file("other.json"))); }),
      "not a file of a scaling study"));
}

/// With one blank between two words.
std::string words_of(const std::string& text) {
  std::istringstream stream(text);
  std::string joined;
  for (std::string word; stream >> word;) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

TEST(ScalingReport, BenchmarksAreATableOfCollectivesBySize) {
  Json one{{"ranks", 2}, {"memory", {{"gb_per_s", {10.25, 11}}}}};
  one["products"]["gflop_per_s"] = {100, 90};
  one["collectives"] = Json::array();
  for (const char* op : {"all_reduce", "broadcast"}) {
    for (const int bytes : {1024, 4096})
      one["collectives"].push_back(
          {{"op", op}, {"bytes", bytes}, {"us", {{"median", 2.5}}}, {"busbw_gb_per_s", 0.5}});
  }
  const std::string lines = benchmark_lines(one);
  EXPECT_TRUE(has(lines, "2 ranks: memory 21.2 GB/s together, products 90 GFLOP/s the slowest"));
  EXPECT_EQ(words_of(lines.substr(lines.find('\n'))),
            "us (bus GB/s) 1.0 KiB 4.0 KiB all_reduce 2.5 (0.50) 2.5 (0.50) broadcast 2.5 (0.50) "
            "2.5 (0.50)");
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), expression),
                                        std::sregex_iterator()));
}

// Of gnuplot's shapes gpPt6 is a filled circle and gpPt4 a square; white ones are their margins.
TEST(ScalingReport, ThePlotIsXmlWithAPointForEachMeasuredSize) {
  const ScratchFolder scratch;
  Result failed = result(8, 1, 1);
  failed.failed = "killed";
  const auto sizes = analyse({result(1, 1, 10), result(2, 1, 6), result(4, 1, 4), failed});
  const std::string svg = scratch.file("scaling.svg");
  for (const Mode mode : {Mode::strong, Mode::weak}) {
    ASSERT_EQ(draw(mode, sizes, svg), svg);
    const std::string text = test::read_file(svg);
    const test::Finished parsed =
        test::run({"python3", "-c", "import sys, xml.dom.minidom as x; x.parse(sys.argv[1])", svg});
    EXPECT_EQ(parsed.exit_code, 0) << parsed.output;
    EXPECT_EQ(count(text, "#gpPt6' transform='[^']*' color='rgb"), 3);
    EXPECT_EQ(count(text, "#gpPt4' transform='[^']*' color='rgb"), 3);
    EXPECT_EQ(count(text, ">ideal<"), 2);
    EXPECT_EQ(count(text, std::string(words(mode)) + " scaling"), 1);
  }
  // Hollow circles, gpPt5, of predicted sizes.
  const std::vector<Predicted> predicted{{.ranks = 8, .samples_per_s = 3e4},
                                         {.ranks = 64, .failed = "no"},
                                         {.ranks = 512, .samples_per_s = 1e6}};
  ASSERT_EQ(draw(Mode::strong, sizes, svg, predicted), svg);
  const std::string text = test::read_file(svg);
  EXPECT_EQ(count(text, "#gpPt5' transform='[^']*' color='rgb"), 2 * (2 + 1));  // and in the key
  EXPECT_EQ(count(text, ">predicted<"), 2);
  EXPECT_TRUE(has(plot_script(Mode::strong, sizes, "a.svg", predicted), "set logscale xy"));
  EXPECT_FALSE(has(plot_script(Mode::strong, sizes, "a.svg"), "logscale"));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("scaling.gp")));
  EXPECT_EQ(draw(Mode::strong, analyse({failed}), svg), "not drawn, because nothing was measured");
}

TEST(ScalingLaunch, BindsRanksToCoresUnlessTheyAreMoreOrTheLauncherIsNamed) {
  Options options;
  Point point{.placement = {{{"here", 2}}}, .repeat = 1};
  const std::vector<std::string> app{"classify", "my deck.toml"};
  const auto words = PointLauncher(options, 3).command(point, 1, app).words;
  EXPECT_TRUE(has(quoted(words), " -bind-to core:3 -n 2 classify 'my deck.toml'"));
  point.oversubscribed = true;
  EXPECT_FALSE(has(quoted(PointLauncher(options, 3).command(point, 1, app).words), "-bind-to"));
  options.launcher = "env -i";
  EXPECT_EQ(quoted(PointLauncher(options, 3).command(point, 1, {"it's"}).words),
            "env -i -n 2 'it'\\''s'");
  options.launcher = "no_such_launcher";
  EXPECT_TRUE(has(message_of<InputError>([&] { const PointLauncher none(options, 1); }),
                  "the launcher no_such_launcher is not an executable program"));
}

TEST(ScalingLaunch, FluxIsToldNodesAndRanks) {
  const ScratchFolder scratch;
  const std::string flux = scratch.write("flux", "");
  std::filesystem::permissions(flux, std::filesystem::perms::owner_all);
  Options options;
  options.launcher = flux + " run";
  options.members = "hosts";
  const Point point{.placement = {{{"a", 2}, {"b", 2}}}, .repeat = 1};
  EXPECT_EQ(quoted(PointLauncher(options, 1).command(point, 1, {"app"}).words),
            flux + " run --nodes=2 --ntasks=4 app");
}

TEST(ScalingLaunch, SettingsOfThePointFollowTheUsersOwn) {
  Options options;
  options.overrides = {"train.batch_size=7"};
  options.steps = 200;
  const Point point{.placement = {{{"here", 2}}}, .repeat = 1, .batch_size = 256};
  const std::string words = quoted(settings_of(point, options, 2, "a \"b\""));
  EXPECT_LT(words.find("train.batch_size=7"), words.find("train.batch_size=256"));
  for (const char* part : {R"('run.dir="a \"b\""')", "run.threads=2", "log.every_steps=10",
                           "run.max_minutes=11.00", "checkpoint.every_epochs=0"})
    EXPECT_TRUE(has(words, part)) << part << " in " << words;
  EXPECT_EQ(steps_a_row(7), 1);
}

TEST(ScalingJobScript, AsksForTheNodesAndRunsTheSameStudyInOneAllocation) {
  Options options;
  options.arguments = {"lockstep", "scaling", "deck.toml", "--script", "slurm", "--ranks", "2,4"};
  const bool has_shellcheck = test::run({"shellcheck", "--version"}).exit_code == 0;
  for (const std::string kind : {"slurm", "pbs", "flux"}) {
    const std::string script = job_script(kind, options, 2, 4, 3);
    EXPECT_TRUE(has(script, "lockstep scaling deck.toml --ranks 2,4")) << script;
    EXPECT_FALSE(has(script, "--script")) << script;
    const ScratchFolder scratch;
    const std::string file = scratch.write("job.sh", script);
    const test::Finished checked = test::run({"bash", "-n", file});
    EXPECT_EQ(checked.exit_code, 0) << checked.output << script;
    if (has_shellcheck) {
      const test::Finished linted = test::run({"shellcheck", file});
      EXPECT_EQ(linted.exit_code, 0) << linted.output << script;
    }
    EXPECT_TRUE(has(script, "\nexec lockstep ")) << "a signal must reach the study\n" << script;
  }
  options.members = "hosts";
  options.launcher = "mpiexec";
  for (const std::string kind : {"pbs", "flux"}) {
    const std::string script = job_script(kind, options, 2, 4, 3);
    EXPECT_FALSE(has(script, "members") || has(script, "--launcher")) << "it has them\n" << script;
  }
  options.members.clear();
  options.launcher.clear();
  EXPECT_TRUE(has(job_script("slurm", options, 2, 4, 3),
                  "--nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=3\n"));
  EXPECT_TRUE(has(job_script("pbs", options, 2, 4, 3), "-l select=2:ncpus=12:mpiprocs=4\n"));
  EXPECT_TRUE(has(job_script("flux", options, 2, 4, 3), "--cores-per-task=3'"));
}

/// A run's folder as it is left behind.
struct RunFolder {
  ScratchFolder scratch;
  std::string version = "0.1.0";
  int ranks = 2;

  [[nodiscard]] Result read(const std::string& metrics, bool has_summary = true) const {
    scratch.write("metrics.jsonl", metrics);
    if (has_summary) {
      scratch.write("summary.json", text_of({{"ranks", ranks},
                                             {"version", version},
                                             {"git_commit", "abc"},
                                             {"peak_rss_mib", {70, 71}}}));
    }
    Result point = result(2, 1, 1, 10);
    point.intervals.clear();
    return read_run(point, scratch.path(), identity(), {.code = 75, .words = "it says"});
  }
};

TEST(ScalingMeasurement, ReadsWhatARunWrote) {
  const std::string rows = row("step", 2, 9, 20, 0) + row("step", 12, 5, 100, 1);
  RunFolder run;
  EXPECT_TRUE(has(run.read(rows, false).failed, "exit code 75 after 10 of the 10 measured steps"));
  const Result good = run.read(rows);
  EXPECT_EQ(good.failed, "");
  EXPECT_DOUBLE_EQ(total(good.intervals).seconds, 5);
  EXPECT_EQ(good.peak_rss_mib, (std::vector<std::int64_t>{70, 71}));
  EXPECT_EQ(run.read(row("step", 2, 9, 20, 0)).failed,
            "ended with exit code 75 after 0 of the 10 measured steps: it says");
  EXPECT_TRUE(has(run.read(row("step", 2, 9, 20, 0) + row("step", 12, 5, 80, 1)).failed,
                  "8 samples on average, not 10"));
  run.version = "0.2.0";
  EXPECT_TRUE(has(run.read(rows).failed, "the program is of Lockstep 0.2.0"));
  run.ranks = 1;
  EXPECT_TRUE(has(run.read(rows).failed, "its MPI is not the launcher's"));
  EXPECT_TRUE(has(run.read("{\"kind\":\"step\"}\n").failed, "cannot be read"));
}

TEST(ScalingMeasurement, ARunIsAskedToStopOnceItsStepsAreDone) {
  const ScratchFolder scratch;
  StepLimit limit(scratch.path(), 4, 4);
  limit.look();
  scratch.write("metrics.jsonl", row("step", 4, 1, 1, 0));
  limit.look();
  EXPECT_FALSE(std::filesystem::exists(scratch.file("stop")));
  scratch.write("metrics.jsonl", row("step", 4, 1, 1, 0) + row("step", 8, 1, 1, 0));
  limit.look();
  EXPECT_TRUE(std::filesystem::exists(scratch.file("stop")));
}

// A row of 17 steps in which a warm-up of 20 ends is not measured.
TEST(ScalingMeasurement, ARunIsNotAskedToStopBeforeItsMeasuredStepsAreDone) {
  const ScratchFolder scratch;
  StepLimit limit(scratch.path(), 20, 350);
  std::string rows;
  for (int step = 17; step <= 374; step += 17) rows += row("step", step, 1, 1, 0);
  scratch.write("metrics.jsonl", rows);
  limit.look();
  EXPECT_FALSE(std::filesystem::exists(scratch.file("stop")));
  scratch.write("metrics.jsonl", rows + row("step", 391, 1, 1, 0));
  limit.look();
  EXPECT_TRUE(std::filesystem::exists(scratch.file("stop")));
}

TEST(ScalingMeasurement, ACommandThatTakesTooLongOrIsNotWantedIsEnded) {
  const elastic::Launcher::Command sleeps{{"sh", "-c", "echo hello; sleep 100"}, {}};
  const Ended late = run_command(
      sleeps, 0.2, [] { return false; }, [] {});
  EXPECT_TRUE(late.was_late);
  EXPECT_EQ(late.words, "hello");
  const Ended unwanted = run_command(
      sleeps, 100, [] { return true; }, [] {});
  EXPECT_TRUE(unwanted.was_stopped);
  const Ended bad = run_command(
      {{"sh", "-c", "exit 7"}, {}}, 100, [] { return false; }, [] {});
  EXPECT_EQ(bad.code, 7);
  EXPECT_FALSE(bad.was_late || bad.was_stopped);
}

}  // namespace
}  // namespace lockstep::scaling
