#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <lockstep/base/log.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/train/report/event_file.hpp>
#include <support/process.hpp>
#include <vector>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

/// The bytes of a file's whole records, and how many there are.
std::pair<std::size_t, int> whole_records(const std::string& bytes) {
  std::pair<std::size_t, int> found{0, 0};
  for (;;) {
    std::uint64_t length = 0;
    if (found.first + sizeof(length) > bytes.size()) return found;
    std::memcpy(&length, bytes.data() + found.first, sizeof(length));
    const std::size_t next = found.first + length + 16;  // two checksums
    if (next > bytes.size()) return found;
    found = {next, found.second + 1};
  }
}

EventSummary scalar(double value) {
  EventSummary summary;
  summary.add_scalar("train/loss", value);
  return summary;
}

TEST(Histogram, CountsEveryFiniteValueInTheBucketWhoseLimitsEncloseIt) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0F, -0.0F, 1e-13F, -1e-13F, 1e-12F, 1e30F, -1e30F, 1.0F, -1.0F};
  for (int i = 1; i < 2000; ++i)
    values.push_back(static_cast<float>(std::sin(i) * std::pow(10.0, i % 30 - 15)));
  const auto finite = values;
  values.insert(values.end(), {infinity, -infinity, std::nanf("")});
  const Histogram found = histogram_of(Tensor::from(values));
  EXPECT_EQ(found.count, std::ssize(finite));
  EXPECT_EQ(found.max, 1e30F);
  EXPECT_EQ(found.min, -1e30F);
  ASSERT_EQ(found.limits.size(), found.counts.size());
  ASSERT_TRUE(std::ranges::is_sorted(found.limits));
  double counted = 0;
  for (std::size_t i = 0; i < found.limits.size(); ++i) {
    const double from = i == 0 ? -std::numeric_limits<double>::infinity() : found.limits[i - 1];
    // Below zero a bucket has its upper limit, not its lower one.
    const auto expected = std::ranges::count_if(finite, [&](float x) {
      return x < 0 ? x > from && x <= found.limits[i] : x >= from && x < found.limits[i];
    });
    EXPECT_EQ(found.counts[i], static_cast<double>(expected)) << i << " up to " << found.limits[i];
    counted += found.counts[i];
  }
  EXPECT_EQ(counted, static_cast<double>(finite.size()));
}

TEST(Histogram, OfNothingFiniteIsEmpty) {
  EXPECT_TRUE(histogram_of(Tensor::from({std::nanf("")})).limits.empty());
}

TEST(EventFile, OfALaterStartHasALaterName) {
  const test::ScratchFolder scratch;
  const std::string folder = scratch.file("tensorboard");
  EXPECT_FALSE(EventFile::are_in(folder));
  for (int start = 0; start < 3; ++start) EventFile(folder, start).flush();
  EXPECT_TRUE(EventFile::are_in(folder));
  const auto files = files_in(folder);
  ASSERT_EQ(files.size(), 3U);
  // The step from which readers forget stands behind the wall time: key 0x10.
  for (std::size_t start = 1; start < 3; ++start)
    EXPECT_EQ(read_file(files[start]).at(12 + 9 + 1), static_cast<char>(start)) << files[start];
}

TEST(EventFile, ThatFindsNoRoomIsOneWarningAndWrittenLater) {
  const test::ScratchFolder scratch;
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  EventFile events(scratch.file("tensorboard"), 0);
  events.add(1, scalar(0.5));
  events.flush();
  const std::string file = files_in(scratch.file("tensorboard")).at(0);
  const auto size = fs::file_size(file);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit full = before;
  full.rlim_cur = size + 10;  // less than a record
  setrlimit(RLIMIT_FSIZE, &full);
  for (int step = 2; step < 5; ++step) {
    events.add(step, scalar(0.25));
    events.flush();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(said.size(), 1U);
  EXPECT_EQ(whole_records(read_file(file)), std::pair(static_cast<std::size_t>(size), 3));
  events.flush();
  set_log_sink({});
  const std::string bytes = read_file(file);
  EXPECT_EQ(whole_records(bytes), std::pair(bytes.size(), 6));
}

TEST(EventFile, ThatIsRemovedIsBegunAnew) {
  const test::ScratchFolder scratch;
  const std::string folder = scratch.file("tensorboard");
  EventFile events(folder, 0);
  events.add(1, scalar(0.5));
  events.flush();
  fs::remove_all(folder);
  events.add(2, scalar(0.25));
  events.flush();
  ASSERT_EQ(files_in(folder).size(), 1U);
  const std::string bytes = read_file(files_in(folder).at(0));
  EXPECT_EQ(whole_records(bytes), std::pair(bytes.size(), 3));
}

}  // namespace
}  // namespace lockstep::train
