// The threads that execute calls, without an agent.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <lockstep/base/clock.hpp>
#include <lockstep/rpc/crew.hpp>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// To whom one message comes, whose arrival runs what waits for a call, such as an object's
/// destructor; and then none.
class Station final : public rpc::Employer {
 public:
  rpc::Crew crew{*this, 2};
  int most_at_once() const { return most_; }
  std::size_t receivers() {
    const std::lock_guard lock(mutex_);
    return receivers_.size();
  }

 private:
  rpc::Request* receive(std::chrono::microseconds /*at_most*/, bool /*soon*/) override {
    if (!came_.exchange(true)) {
      const rpc::Crew::Blocked waits(crew);
      std::this_thread::sleep_for(milliseconds(20));
      return nullptr;
    }
    const auto count = [&](int more) {
      const std::lock_guard lock(mutex_);
      most_ = std::max(most_, at_once_ += more);
      receivers_.insert(std::this_thread::get_id());
    };
    count(1);
    std::this_thread::sleep_for(milliseconds(1));
    count(-1);
    return nullptr;
  }
  bool is_long(const rpc::Request& /*request*/) noexcept override { return false; }
  void execute(rpc::Request* /*request*/) noexcept override {}
  void nudge() noexcept override {}
  void lost(const std::exception& error) noexcept override { ADD_FAILURE() << error.what(); }
  void moved_in() noexcept override {}

  std::atomic<bool> came_ = false;
  std::mutex mutex_;
  int at_once_ = 0, most_ = 0;
  std::set<std::thread::id> receivers_;
};

TEST(Crew, OneThreadReceivesAlsoAfterAMessageThatWaited) {
  Station station;
  station.crew.start();
  const auto start = Clock::now();
  while (station.receivers() == 0 && seconds_since(start) < 30) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(station.crew.stop(milliseconds(60'000)));
  EXPECT_GE(station.receivers(), 1U);
  EXPECT_EQ(station.most_at_once(), 1);
}

}  // namespace
}  // namespace lockstep
