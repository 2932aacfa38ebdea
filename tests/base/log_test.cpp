#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/log.hpp>

namespace lockstep {
namespace {

struct Message {
  LogLevel level;
  std::string text;
};

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_sink({}); }

  void collect(LogLevel least) {
    set_log_sink(
        [this](LogLevel level, std::string_view text) {
          messages_.push_back({level, std::string(text)});
        },
        least);
  }

  std::vector<Message> messages_;
};

constexpr LogLevel levels[] = {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error};

TEST_F(Log, IsSilentWithoutASink) {
  for (const auto level : levels) {
    EXPECT_FALSE(log_enabled(level));
    EXPECT_NO_THROW(log(level, "nobody hears this"));
  }
}

TEST_F(Log, OnlyTheMinimumLevelAndAboveReachTheSink) {
  for (const auto least : levels) {
    messages_.clear();
    collect(least);
    for (const auto level : levels) {
      EXPECT_EQ(log_enabled(level), level >= least);
      log(level, "text");
    }
    ASSERT_EQ(messages_.size(),
              static_cast<std::size_t>(LogLevel::error) - static_cast<std::size_t>(least) + 1);
    EXPECT_EQ(messages_.front().level, least);
    EXPECT_EQ(messages_.front().text, "text");
  }
}

TEST_F(Log, AnEmptySinkSilencesAgain) {
  collect(LogLevel::debug);
  set_log_sink({}, LogLevel::debug);
  EXPECT_FALSE(log_enabled(LogLevel::error));
  log(LogLevel::error, "nobody hears this");
  EXPECT_TRUE(messages_.empty());
}

TEST_F(Log, MessagesOfManyThreadsArriveOneAtATime) {
  collect(LogLevel::info);  // push_back without a lock: a lost or torn message shows here
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log(LogLevel::info, "a message too long for the small string");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(messages_.size(), 2000U);
}

}  // namespace
}  // namespace lockstep
