// A run's tensorboard/, read back by the package tensorboard.
#include <gtest/gtest.h>

#include <algorithm>
#include <apps/fault.hpp>
#include <apps/small_run.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Compares every number of metrics.jsonl with the events, and prints further events.
constexpr const char* compare = R"(
import collections, json, sys
import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = sys.argv[1]
events = EventAccumulator(run + "/tensorboard", size_guidance=dict.fromkeys(
    ["scalars", "histograms", "tensors", "compressedHistograms"], 0)).Reload()
def figures(value, name):
    if value is None or isinstance(value, (int, float)): yield name, value
    elif isinstance(value, list):
        for part, one in zip(["min", "mean", "max"], value): yield f"{name}/{part}", one
    elif isinstance(value, dict):
        for key, one in value.items(): yield from figures(one, f"{name}/{key}" if name else key)
expected = collections.defaultdict(dict)
for line in open(run + "/metrics.jsonl"):
    row = json.loads(line)
    group = {"step": "train", "epoch": "epoch"}.get(row["kind"], row.get("set"))
    step = row.pop("step")
    row.pop("total_steps", None)  # of the whole run
    for name, value in figures(row, ""):
        expected[group + ("_" if "/" in name else "/") + name][step] = repr(numpy.float32("nan" if value is None else value))
# A tag whose events a resume took back stays in the list, with none.
tags = sorted(tag for tag in events.Tags()["scalars"] if events.Scalars(tag))
assert tags == sorted(expected), (tags, sorted(expected))
for tag, values in expected.items():
    found = [(e.step, repr(numpy.float32(e.value))) for e in events.Scalars(tag)]
    assert found == sorted(values.items()), (tag, found, values)
deck = events.Tensors("deck/text_summary")
assert "    [optimizer]" in deck[-1].tensor_proto.string_val[0].decode(), deck
for tag in events.Tags()["histograms"]:
    for event in events.Histograms(tag):
        h = event.histogram_value
        assert sum(h.bucket) == h.num > 0 and len(h.bucket) == len(h.bucket_limit), (tag, h)
        assert h.min <= h.sum / h.num <= h.max and h.sum_squares >= 0, (tag, h)
histograms = sorted(events.Tags()["histograms"])
print("scalars", len(expected), "steps", len(expected["train/loss"]), "decks", [e.step for e in deck],
      "histograms", len(histograms), [e.step for e in events.Histograms(histograms[0])] if histograms else [],
      next((t for t in histograms if t.startswith("gradients/")), ""))
)";

std::string read_by_tensorboard(const std::string& dir) {
  const char* python = std::getenv("LOCKSTEP_TEST_PYTHON");
  if (python == nullptr) throw std::runtime_error("LOCKSTEP_TEST_PYTHON is not set");
  return good(run({python, "-W", "ignore", "-c", compare, dir}));
}

std::vector<std::string> with_tensorboard(const std::string& dir,
                                          std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--set", "log.tensorboard=true", "--set", "checkpoint.keep=0"});
  return small_run(dir, more);
}

/// Half a record behind the newest file of events, as a kill leaves it.
void leave_half_a_record(const std::string& dir) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir + "/tensorboard"))
    files.push_back(entry.path());
  ASSERT_FALSE(files.empty());
  const fs::path newest = *std::ranges::max_element(files);
  const std::string bytes = read_file(newest.string());
  std::ofstream(newest, std::ios::app | std::ios::binary) << bytes.substr(0, 30);
}

TEST(TensorBoard, ReadsEveryFigureOfTheMetricsAndTheHistograms) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  static_cast<void>(
      good(classify(2, with_tensorboard(dir, {"--set", "log.histogram_every_steps=15"}))));
  const std::string read = read_by_tensorboard(dir);
  EXPECT_NE(read.find(" steps 20 decks [0] histograms "), std::string::npos) << read;
  EXPECT_NE(read.find("[15, 30] gradients/"), std::string::npos) << read;
}

TEST(TensorBoard, ShowsNoStepTwiceAfterAResumeFromAnEarlierOne) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  // Only rows that the resume takes back name a slowest rank.
  const Fault slow_at_last = misbehave(2, "slow 1 22", with_tensorboard(dir));
  static_cast<void>(good(slow_at_last.finished));
  EXPECT_NE(read_file(dir + "/metrics.jsonl").find("\"slowest\""), std::string::npos);
  leave_half_a_record(dir);
  static_cast<void>(
      good(classify(1, with_tensorboard(dir, {"--resume=" + dir + "/checkpoints/step-00000020.h5",
                                              "--set", "log.histogram_every_steps=15"}))));
  const std::string read = read_by_tensorboard(dir);
  EXPECT_NE(read.find(" steps 20 decks [0, 20] histograms "), std::string::npos) << read;
  EXPECT_NE(read.find("[30] gradients/"), std::string::npos) << read;
}

TEST(TensorBoard, ReadsOnAfterAKill) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  // The rank that dies is the one that saves: a save of its own thread might not be done.
  const Fault fault =
      misbehave(2, "kill 0 27", with_tensorboard(dir, {"--set", "checkpoint.async=false"}));
  EXPECT_GT(fault.seconds, 0.0) << fault.finished.output;
  leave_half_a_record(dir);
  static_cast<void>(good(classify(2, with_tensorboard(dir, {"--resume"}))));
  const std::string read = read_by_tensorboard(dir);
  EXPECT_NE(read.find(" steps 20 decks [0, 20]"), std::string::npos) << read;
}

TEST(TensorBoard, ThatIsSwitchedOnLateGetsTheRowsBefore) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  static_cast<void>(good(classify(1, small_run(dir, {"--set", "train.epochs=2"}))));
  static_cast<void>(good(classify(1, with_tensorboard(dir, {"--resume"}))));
  const std::string read = read_by_tensorboard(dir);
  EXPECT_NE(read.find(" steps 20 decks [20]"), std::string::npos) << read;
}

}  // namespace
}  // namespace lockstep::test
