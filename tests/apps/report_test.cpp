// `lockstep report` and `lockstep watch` as users run them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <apps/small_run.hpp>
#include <apps/written_run.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// A run of 10,000 steps with a row each.
void write_long_run(const fs::path& folder) {
  write_run(folder, "[train]\nepochs = 1\n");
  std::ofstream metrics(folder / "metrics.jsonl");
  for (int step = 1; step <= 10'000; ++step)
    metrics << written_row("step", step, 1, 1.0 + 1e-4 * (step * 7919 % 10'007), 1);
}

class ReportCommand : public testing::Test {
 protected:
  /// A build without dygraphs writes no page, and says why.
  void SetUp() override {
    if (std::string(std::getenv("LOCKSTEP_DYGRAPHS")).starts_with("/")) return;
    const ScratchFolder scratch;
    write_run(scratch.file("run"), "");
    const Finished finished =
        lockstep_utility({"report", scratch.file("run"), "-o", scratch.file("page.html")});
    EXPECT_EQ(finished.exit_code, 1);
    EXPECT_TRUE(finished.says("this lockstep was built without dygraphs")) << finished.output;
    GTEST_SKIP() << "this build has no dygraphs";
  }
};

TEST_F(ReportCommand, OfTenThousandStepsIsSmall) {
  const ScratchFolder scratch;
  write_long_run(scratch.file("run"));
  const std::string page = scratch.file("page.html");
  const Finished finished = lockstep_utility({"report", scratch.file("run"), "-o", page});
  good(finished);
  EXPECT_TRUE(finished.says("page.html: ")) << finished.output;
  EXPECT_LE(fs::file_size(page), 1'000'000U);
  RecordProperty("seconds", std::to_string(finished.seconds));
  EXPECT_LE(finished.seconds, 5);  // 0.3 on an idle machine: this test does not measure
}

TEST_F(ReportCommand, OverlaysRunsAndNamesThoseThatCannotBeCompared) {
  const ScratchFolder scratch;
  write_run(scratch.file("a"), "[optimizer]\nlr = 0.1\n");
  write_run(scratch.file("b"), "[optimizer]\nlr = 0.2\n", "gpt");
  fs::create_directories(scratch.file("empty"));
  std::ofstream(scratch.file("empty/deck.toml")) << "[train]\nepochs = 1\n";
  const std::string page = scratch.file("page.html");
  good(lockstep_utility(
      {"report", scratch.file("a"), scratch.file("b"), scratch.file("empty"), "-o", page}));
  const std::string text = read_file(page);
  for (const char* part : {"The runs are of different tasks, so their figures cannot be compared: "
                           "a (classify) b (gpt).",
                           "empty: metrics.jsonl has no rows, so there are no curves.",
                           "empty: summary.json is missing, and with it memory and versions.",
                           R"(["optimizer.lr","0.1","0.2",""])"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST_F(ReportCommand, BadInputIsOneSentenceAndLeavesNoPage) {
  const ScratchFolder scratch;
  write_run(scratch.file("run"), "");
  fs::create_directories(scratch.file("study"));
  std::ofstream(scratch.file("study/study.json")) << "{}";
  std::ofstream(scratch.file("file")) << "no run";
  const std::string page = scratch.file("page.html");
  const auto refused = [&](const std::string& run, const std::string& output,
                           const char* sentence) {
    const Finished finished = lockstep_utility({"report", scratch.file(run), "-o", output});
    EXPECT_NE(finished.exit_code, 0);
    EXPECT_TRUE(finished.says(sentence)) << finished.output;
    EXPECT_FALSE(fs::exists(page));
  };
  refused("missing", page, "missing does not exist");
  refused("file", page, "file is a file; name the folder of a run");
  refused(".", page, "holds no run; name those in it: run");
  refused("study", page, "is not finished: run lockstep scaling with the same --output again");
  refused("run", scratch.file("run"), "is a folder; name a file in it");
  refused("run", scratch.file("file/page.html"), "file");
  refused("run", scratch.file("run/metrics.jsonl"), "metrics.jsonl");
  EXPECT_GT(fs::file_size(scratch.file("run/metrics.jsonl")), 1000U);
  const Finished nothing = lockstep_utility({"report"});
  EXPECT_EQ(nothing.exit_code, 2);
}

TEST(Watch, FollowsARunFromBeforeItBeginsToItsEnd) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const std::string begin = dir + ": the run has not begun; waiting for it\n",
                    said = scratch.write("said", "");
  Finished watched;
  std::thread watcher([&] {
    watched = run(
        {"sh", "-c",
         "exec " + quoted({built("apps/lockstep"), "watch", dir, "--every", "0.1"}) + ">" + said},
        {}, 120);
  });
  for (int i = 0; i < 6000 && !read_file(said).starts_with(begin); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Finished trained = classify(2, small_run(dir, {"--set", "train.epochs=8"}));
  watcher.join();
  good(trained);
  good(watched);
  watched.output = read_file(said);
  EXPECT_TRUE(watched.output.starts_with(begin)) << watched.output;
  EXPECT_TRUE(watched.says("step 80 of 80 (100 %), epoch 8 of 8")) << watched.output;
  EXPECT_TRUE(watched.output.ends_with("checkpoint: step 80; completed\n")) << watched.output;
  EXPECT_FALSE(watched.says("\033")) << watched.output;
}

TEST(Watch, ExitCodeTellsHowTheRunEnded) {
  const ScratchFolder scratch;
  write_run(scratch.file("run"), "");
  const auto watch = [&] { return lockstep_utility({"watch", scratch.file("run")}); };
  EXPECT_EQ(watch().exit_code, 0);
  std::ofstream(scratch.file("run/summary.json"))
      << R"({"completed":false,"stopped_early":true,"stopped_by":"SIGUSR1","steps":20})";
  EXPECT_EQ(watch().exit_code, 75);
  EXPECT_TRUE(watch().says("; stopped by SIGUSR1\n"));
  fs::remove(scratch.file("run/summary.json"));
  EXPECT_EQ(watch().exit_code, 1);
  EXPECT_TRUE(watch().says("it failed or was killed"));
}

TEST(Watch, RefusesAFolderWithoutARun) {
  const ScratchFolder scratch;
  const Finished once = lockstep_utility({"watch", scratch.file("missing"), "--once"});
  EXPECT_EQ(once.exit_code, 2);
  EXPECT_TRUE(once.says("missing does not exist")) << once.output;
  write_run(scratch.file("runs/a"), "");
  const Finished parent = lockstep_utility({"watch", scratch.file("runs")});
  EXPECT_EQ(parent.exit_code, 2);
  EXPECT_TRUE(parent.says("name those in it: a")) << parent.output;
}

TEST(Watch, RedrawsOnlyOnATerminalThatCan) {
  const ScratchFolder scratch;
  write_run(scratch.file("run"), "[train]\nepochs = 2\n");
  const auto on = [&](const std::string& terminal, int columns) {
    return run_on_terminal(
        {"env", "TERM=" + terminal, built("apps/lockstep"), "watch", scratch.file("run"), "--once"},
        columns);
  };
  const Finished drawn = on("xterm", 100);
  EXPECT_TRUE(drawn.says("progress    step 20 of 20 (100 %), epoch 2 of 2\033[K\r\n"))
      << drawn.output;
  EXPECT_TRUE(drawn.says("|")) << drawn.output;  // a curve's axis
  EXPECT_FALSE(drawn.says("m") && drawn.says("\033[3")) << "a colour in " << drawn.output;
  const Finished narrow = on("xterm", 20);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = narrow.output.find("\r\n", begin)) != std::string::npos;
       begin = end + 2) {
    EXPECT_LE(end - begin, 19 + 3U) << narrow.output;  // and an escape sequence of 3
  }
  const Finished dumb = on("dumb", 100);
  EXPECT_FALSE(dumb.says("\033")) << dumb.output;
  EXPECT_TRUE(dumb.says("step 20 of 20")) << dumb.output;
}

/// The pictures of `lockstep watch` during a run, on a terminal of 24 rows.
struct Drawn {
  Finished finished;
  std::vector<std::vector<std::string>> pictures;  ///< lines without escape sequences
  std::string before, after;                       ///< what is there besides

  /// Fails unless each picture begins where the one before it does.
  explicit Drawn(Finished of) : finished(std::move(of)) {
    const std::string& text = finished.output;
    const std::regex picture("(?:\033\\[(\\d+)A)?((?:[^\033\r\n]*\033\\[K\r\n)+)\033\\[J");
    std::sregex_iterator at(text.begin(), text.end(), picture), end;
    if (at != end) before = at->prefix();
    for (; at != end; ++at) {
      if (!pictures.empty()) {
        EXPECT_EQ(at->prefix(), "") << "between two pictures";
        EXPECT_EQ((*at)[1], std::to_string(pictures.back().size())) << "rows up";
      }
      std::vector<std::string> lines;
      const std::string drawn = (*at)[2], line_end = "\033[K\r\n";
      for (std::size_t first = 0, last = 0;
           (last = drawn.find(line_end, first)) != std::string::npos;
           first = last + line_end.size())
        lines.push_back(drawn.substr(first, last - first));
      pictures.push_back(lines);
      after = at->suffix();
    }
  }
};

class WatchOnATerminal : public testing::TestWithParam<int> {
 protected:
  /// Before the run begins, `watch` is started; with a limit, it is interrupted then. On a busy
  /// machine the run may begin before it has looked, or end before it has drawn three times: they
  /// are started once more then, with more time for both.
  [[nodiscard]] Drawn watch(int epochs, double limit_s = 0) const {
    for (int slower = 1;; slower *= 4) {
      Drawn drawn = watch_once(epochs, limit_s * slower, slower);
      if ((!drawn.before.empty() && drawn.pictures.size() >= 3) || slower == 16) return drawn;
    }
  }
  [[nodiscard]] Drawn watch_once(int epochs, double limit_s, int slower) const {
    const std::string dir = scratch_.file("run");
    fs::remove_all(dir);
    const std::string starter =
        limit_s > 0 ? "timeout --foreground --preserve-status -s INT " + std::to_string(limit_s)
                    : "";
    std::vector<std::string> train{built("tests/apps/misbehave")};
    for (const std::string& word :
         small_run(dir, {"--set", "train.epochs=" + std::to_string(epochs)}))
      train.push_back(word);
    return Drawn(
        run_on_terminal({"bash", "-c",
                         "export TERM=xterm MISBEHAVE_PACE=" + std::to_string(40 * slower) +
                             "; (sleep " + std::to_string(0.3 * slower) + "; exec " +
                             quoted(train) + ">/dev/null 2>&1) & run=$!\n" + starter + " " +
                             quoted({built("apps/lockstep"), "watch", dir, "--every", "0.2"}) +
                             "; code=$?; kill $run 2>/dev/null; wait; echo code=$code"},
                        GetParam()));
  }
  void expect_fits(const Drawn& drawn) const {
    const auto width = static_cast<std::size_t>(GetParam());
    EXPECT_LT(drawn.before.find("\r\n"), width) << drawn.before;  // waiting for the run
    EXPECT_EQ(drawn.before.find('\033'), std::string::npos) << drawn.before;
    EXPECT_GE(drawn.pictures.size(), 3U) << drawn.finished.output;
    for (const auto& picture : drawn.pictures) {
      EXPECT_LT(picture.size(), 24U);
      for (const std::string& line : picture) {
        EXPECT_LT(line.size(), width) << line;
        EXPECT_EQ(line.find_first_of("\033\r\n\t"), std::string::npos) << line;
      }
    }
  }

  ScratchFolder scratch_;
};

TEST_P(WatchOnATerminal, RedrawsInPlaceToTheEndWithoutColours) {
  const Drawn drawn = watch(4);
  EXPECT_EQ(drawn.after, "code=0\r\n") << drawn.finished.output;
  expect_fits(drawn);
  ASSERT_FALSE(drawn.pictures.empty());
  EXPECT_EQ(drawn.pictures.back().at(1).substr(0, 19), "state       complet");
  EXPECT_NE(drawn.pictures.front(), drawn.pictures.back());
}

TEST_P(WatchOnATerminal, InterruptLeavesAWholePictureWithTheCursorBelowIt) {
  const Drawn drawn = watch(1000, 2);
  EXPECT_EQ(drawn.after, "code=130\r\n") << drawn.finished.output;
  expect_fits(drawn);
}

INSTANTIATE_TEST_SUITE_P(Columns, WatchOnATerminal, testing::Values(24, 80));

TEST(Watch, InterruptEndsIt) {
  const ScratchFolder scratch;
  const Finished finished = run({"timeout", "--preserve-status", "-s", "INT", "0.5",
                                 built("apps/lockstep"), "watch", scratch.file("run")});
  EXPECT_EQ(finished.exit_code, 130) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
