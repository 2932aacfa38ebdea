#include <gtest/gtest.h>

#include <algorithm>
#include <apps/fault.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

/// An event in a trace: times in microseconds.
struct Span {
  std::string name, category, of;
  int process = 0, thread = 0;
  double begin = 0, end = 0;
};

bool lies_in(const Span& inner, const Span& outer) {
  return inner.process == outer.process && inner.begin >= outer.begin && inner.end <= outer.end;
}

/// A parsed trace; every begin must have an end.
class Trace {
 public:
  explicit Trace(const std::string& file) {
    std::map<std::string, std::vector<Span>> open;
    const Json whole = Json::parse(read_file(file));
    for (const Json& event : whole.at("traceEvents")) add(event, open);
    for (const auto& [id, spans] : open)
      EXPECT_TRUE(spans.empty()) << spans.front().name << " does not end";
  }

  [[nodiscard]] std::vector<Span> all(const std::string& category, const std::string& name = "",
                                      const std::string& of = "") const {
    std::vector<Span> found;
    std::ranges::copy_if(spans_, std::back_inserter(found), [&](const Span& span) {
      return span.category == category && (name.empty() || span.name == name) &&
             (of.empty() || span.of == of);
    });
    return found;
  }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }
  /// By process.
  [[nodiscard]] const std::map<int, std::string>& ranks() const { return ranks_; }
  [[nodiscard]] std::multiset<std::string> threads_of(int process) const {
    std::multiset<std::string> names;
    for (const auto& [thread, name] : threads_) {
      if (thread.first == process) names.insert(name);
    }
    return names;
  }
  [[nodiscard]] bool names(const Span& span) const {
    return ranks_.contains(span.process) && threads_.contains({span.process, span.thread});
  }

 private:
  void add(const Json& event, std::map<std::string, std::vector<Span>>& open) {
    const std::string phase = event.at("ph"), name = event.at("name");
    const Json arguments = event.value("args", Json::object());
    Span span{.name = name,
              .category = event.value("cat", ""),
              .of = arguments.value("of", ""),
              .process = event.at("pid").get<int>(),
              .thread = event.at("tid").get<int>()};
    if (phase == "M") {
      if (name == "process_name") ranks_[span.process] = arguments.at("name");
      if (name == "thread_name") threads_[{span.process, span.thread}] = arguments.at("name");
      return;
    }
    span.begin = event.at("ts").get<double>();
    if (phase == "X") {
      span.end = span.begin + event.at("dur").get<double>();
      EXPECT_GE(span.end, span.begin);
      return spans_.push_back(span);
    }
    auto& flight = open[std::to_string(span.process) + span.category +
                        event.at("id2").at("local").get<std::string>()];
    if (phase == "b") return flight.push_back(span);
    ASSERT_EQ(phase, "e") << event;
    ASSERT_FALSE(flight.empty()) << event << " has no begin";
    ASSERT_EQ(flight.back().name, name) << event << " ends another";
    flight.back().end = span.begin;
    EXPECT_GE(flight.back().end, flight.back().begin) << event;
    spans_.push_back(flight.back());
    flight.pop_back();
  }

  std::vector<Span> spans_;
  std::map<int, std::string> ranks_;
  std::map<std::pair<int, int>, std::string> threads_;
};

std::vector<std::string> traced_run(const std::string& dir, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--set", "train.trace=true"});
  return small_run(dir, more);
}

/// On a thread, one event contains another or they do not overlap.
void expect_nested(const std::vector<Span>& spans) {
  std::map<std::pair<int, int>, std::vector<Span>> threads;
  for (const Span& span : spans) {
    if (span.category != "collective" && span.category != "message")
      threads[{span.process, span.thread}].push_back(span);
    if (span.name == "sum and copy") threads[{span.process, span.thread}].push_back(span);
  }
  for (auto& [thread, events] : threads) {
    std::ranges::stable_sort(events, [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<Span> open;
    for (const Span& span : events) {
      // Times are read as doubles: half a nanosecond.
      while (!open.empty() && open.back().end <= span.begin + 5e-4) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(span.end, open.back().end + 5e-4) << span.name << " and " << open.back().name;
      }
      open.push_back(span);
    }
  }
}

class TraceOfRanks : public testing::TestWithParam<int> {};

TEST_P(TraceOfRanks, ShowsWhatEveryRankAndThreadDid) {
  const int ranks = GetParam();
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Finished run = classify(
      ranks, traced_run(dir, {"--set", "train.epochs=2", "--set", "checkpoint.every_steps=7"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("trace/trace.json (open it in https://ui.perfetto.dev)")) << run.output;
  const Trace trace(dir + "/trace/trace.json");

  ASSERT_EQ(trace.ranks().size(), static_cast<std::size_t>(ranks));
  int rank = 0;
  for (const auto& [process, name] : trace.ranks()) {
    EXPECT_TRUE(name.starts_with("rank " + std::to_string(rank++) + ", ")) << name;
    const auto threads = trace.threads_of(process);
    EXPECT_EQ(threads.count("training"), 1U);
    EXPECT_GE(threads.count("loader"), 1U);
  }
  for (const Span& span : trace.spans()) {
    EXPECT_TRUE(trace.names(span)) << span.name;
    EXPECT_GE(span.begin, 0.0) << span.name;
  }
  expect_nested(trace.spans());

  // 2 epochs of 10 steps, with an evaluation each; saved after steps 7, 10, 14 and 20.
  const auto of_all = [&](int count) { return static_cast<std::size_t>(count * ranks); };
  for (const char* phase : {"forward", "backward", "optimizer"})
    EXPECT_EQ(trace.all("step", phase).size(), of_all(20)) << phase;
  EXPECT_EQ(trace.all("step", "step 13").size(), of_all(1));
  EXPECT_EQ(trace.all("forward", "fc1").size(), trace.all("forward", "conv1").size());
  EXPECT_GE(trace.all("forward", "conv1").size(), of_all(20));
  EXPECT_EQ(trace.all("backward", "linear", "fc1").size(), of_all(20));
  EXPECT_EQ(trace.all("backward", "conv2d_max_pool2d_relu", "conv2").size(), of_all(20));
  EXPECT_EQ(trace.all("collective", "bucket 0", "all_reduce").size(), of_all(20));
  EXPECT_EQ(trace.all("evaluation").size(), of_all(2));
  EXPECT_EQ(trace.all("checkpoint", "save 7").size(), of_all(1));
  EXPECT_EQ(trace.all("checkpoint", "stage").size(), of_all(4));
  EXPECT_EQ(trace.all("checkpoint", "write").size(), of_all(4));
  EXPECT_EQ(trace.all("checkpoint", "publish").size(), 4U);
  EXPECT_GE(trace.all("loader", "load batch 3").size(), of_all(2));
  for (const Span& step : trace.all("step", "backward")) {
    const auto layers = trace.all("backward");
    EXPECT_GE(std::ranges::count_if(layers, [&](const Span& s) { return lies_in(s, step); }), 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TraceOfRanks, testing::Values(1, 2, 4));

/// An mlp of four layers with one bucket per parameter, or one for all: counts the layers whose
/// bucket of weights was in flight during all of the next layer's backward.
std::map<std::string, int> overlaps(const std::string& dir, bool one_bucket) {
  const std::string limit = one_bucket ? "100000000" : "1";
  const Finished run = classify(
      2, traced_run(
             dir, {"--set", "model.kind=\"mlp\"", "--set", "model.hidden=[300, 300, 300]", "--set",
                   "ddp.first_bucket_bytes=" + limit, "--set", "ddp.bucket_bytes=" + limit}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  const Trace trace(dir + "/trace/trace.json");
  std::map<std::string, int> found;
  for (int layer = 4; layer > 1; --layer) {
    const int bucket = one_bucket ? 0 : 1 + 2 * (4 - layer);  // biases are launched before weights
    const auto name = "bucket " + std::to_string(bucket);
    const auto flights = trace.all("collective", name);
    EXPECT_EQ(flights.size(), 80U) << name;  // 40 steps on two ranks
    const auto computed = trace.all("backward", "linear", "fc" + std::to_string(layer - 1));
    EXPECT_EQ(computed.size(), 80U);
    found[name + " during fc" + std::to_string(layer - 1)] =
        static_cast<int>(std::ranges::count_if(flights, [&](const Span& flight) {
          return std::ranges::any_of(computed, [&](const Span& s) { return lies_in(s, flight); });
        }));
  }
  return found;
}

TEST(Overlap, ABucketIsInFlightWhileTheLayerBeforeItComputesBackward) {
  // The later rank may find its bucket already summed; the first one has to wait.
  constexpr int often = 20;
  std::map<std::string, int> found;
  const auto is_rare = [](const auto& one) { return one.second < often; };
  for (int run = 0; run < 5; ++run) {  // on a busy machine one sample proves nothing
    const ScratchFolder scratch;
    found = overlaps(scratch.file("run"), false);
    if (std::ranges::none_of(found, is_rare)) break;
  }
  for (const auto& [what, times] : found) EXPECT_GE(times, often) << what;
}

TEST(Overlap, AnOnlyBucketIsInFlightWhileNothingComputes) {
  const ScratchFolder scratch;
  for (const auto& [what, times] : overlaps(scratch.file("run"), true)) EXPECT_EQ(times, 0) << what;
}

/// The deviation from the expected trace if rank 1 is slow; "" if there is none.
std::string wrong_with_a_slow_rank() {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Finished run =
      test::run(app(2, "tests/apps/misbehave", traced_run(dir)), {{"MISBEHAVE", "slow 1 1"}});
  if (run.exit_code != 0 || !run.says("rank 1 is slowest: ") ||
      !run.says(" times the median in forward (")) {
    return run.output;
  }
  int rows = 0;
  std::istringstream metrics(read_file(dir + "/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const Json row = Json::parse(line);
    if (row.at("kind") != "epoch" || row.at("epoch") == 1)
      continue;  // all are slow in the first step
    ++rows;
    const Json slowest = row.contains("slowest") ? row.at("slowest") : Json();
    const Json& times = row.at("time_min_mean_max_s");
    const bool is_named = !slowest.is_null() && slowest.at("rank") == 1 &&
                          slowest.at("phase") == "forward" &&
                          slowest.at("ms_a_step").get<double>() >= 20.0;
    // Ten steps with 20 ms each that only rank 0 spends waiting for the late one.
    const Json& late = times.at("communication_late");
    const double most = late.at(2).get<double>();
    if (!is_named || most < 0.15 || late.at(0).get<double>() > 0.05 ||
        most > times.at("communication").at(2).get<double>()) {
      return row.dump();
    }
  }
  if (rows != 3) return std::to_string(rows) + " epochs";

  // The trace shows the late rank: rank 0's bucket is in flight during most of rank 1's sleep.
  const Trace trace(dir + "/trace/trace.json");
  const auto waits = trace.all("collective", "not all ranks have entered");
  const auto long_ones = [&](int process) {
    return std::ranges::count_if(waits, [&](const Span& wait) {
      return wait.process == process && wait.end - wait.begin > 10'000;
    });
  };
  const auto rank_0 = long_ones(1), rank_1 = long_ones(2);
  if (rank_0 >= 35 && rank_1 <= 15) return "";
  return std::to_string(rank_0) + " long waits of rank 0, " + std::to_string(rank_1) + " of rank 1";
}

TEST(Straggler, IsNamedWithItsPhaseAndTheOthersWaitForIt) {
  std::string wrong = "no run";
  for (int run = 0; run < 5 && !wrong.empty();
       ++run) {  // while other programs use the cores for long
    wrong = wrong_with_a_slow_rank();
  }
  EXPECT_EQ(wrong, "");
}

TEST(Trace, IsNotWrittenUnlessAskedFor) {
  const ScratchFolder scratch;
  const Finished run = classify(1, small_run(scratch.file("run")));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_FALSE(std::filesystem::exists(scratch.file("run/trace")));
  EXPECT_FALSE(run.says("perfetto")) << run.output;
}

TEST(Trace, ThatCannotBeWrittenIsSaidByAllRanksTogether) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  std::filesystem::create_directories(dir);
  scratch.write("run/trace", "a file where the folder should be");
  const Finished run = classify(2, traced_run(dir));
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.says("run/trace")) << run.output;
  EXPECT_TRUE(std::filesystem::exists(dir + "/checkpoints/step-00000040.h5"));
}

TEST(Trace, ThatCannotBeWrittenCostsAStopNoWork) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  std::filesystem::create_directories(dir);
  scratch.write("run/trace", "a file where the folder should be");
  const Fault asked = misbehave(2, "usr1 1 13", traced_run(dir));
  EXPECT_EQ(asked.finished.exit_code, 75) << asked.finished.output;
  EXPECT_TRUE(asked.finished.says("run/trace")) << asked.finished.output;
  EXPECT_TRUE(std::filesystem::exists(dir + "/checkpoints/step-00000013.h5"));
}

}  // namespace
}  // namespace lockstep::test
