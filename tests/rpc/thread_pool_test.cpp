// The threads that execute calls, without an agent.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/rpc/thread_pool.hpp>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// To whom one message comes, whose arrival runs what waits for a call, such as an object's
/// destructor; and then none.
class OneMessage final : public rpc::RequestHandler {
 public:
  rpc::ThreadPool pool{*this, 2};
  int most_at_once() const { return most_; }
  std::size_t receivers() {
    const std::lock_guard lock(mutex_);
    return receivers_.size();
  }

 private:
  rpc::Request* receive(std::chrono::microseconds /*at_most*/, bool /*soon*/) override {
    if (!came_.exchange(true)) {
      const rpc::ThreadPool::Blocked waits(pool);
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
  void wake() noexcept override {}
  void lost(const std::exception& error) noexcept override { ADD_FAILURE() << error.what(); }
  void begin_thread() noexcept override {}

  std::atomic<bool> came_ = false;
  std::mutex mutex_;
  int at_once_ = 0, most_ = 0;
  std::set<std::thread::id> receivers_;
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need the address space

/// To whom nothing comes but what is pushed.
class Pushed final : public rpc::RequestHandler {
 public:
  rpc::ThreadPool pool{*this, 2};
  std::atomic<int> executed = 0, wakes = 0;

 private:
  rpc::Request* receive(std::chrono::microseconds /*at_most*/, bool /*soon*/) override {
    std::this_thread::sleep_for(milliseconds(1));
    return nullptr;
  }
  bool is_long(const rpc::Request& /*request*/) noexcept override { return false; }
  void execute(rpc::Request* /*request*/) noexcept override { ++executed; }
  void wake() noexcept override { ++wakes; }
  void lost(const std::exception& error) noexcept override { ADD_FAILURE() << error.what(); }
  void begin_thread() noexcept override {}
};

/// Of this process, as the system counts it for RLIMIT_AS.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// The first of this file: a stack of a thread that has ended would be taken again.
TEST(ThreadPool, ContinuesWithTheExistingThreadsIfNoneCanBeStarted) {
  Pushed one;
  rpc::Request first, second;
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said += text; });
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit less{address_space() + (rlim_t{1} << 20U), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  EXPECT_NO_THROW(one.pool.push(&first));
  setrlimit(RLIMIT_AS, &before);
  set_log_sink({});
  EXPECT_NE(said.find("threads can be started"), std::string::npos) << said;
  EXPECT_EQ(one.wakes.load(), 1) << "there may be somebody who receives";
  one.pool.push(&second);
  const auto start = Clock::now();
  while (one.executed < 2 && seconds_since(start) < 30) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(one.executed.load(), 2);
  EXPECT_TRUE(one.pool.stop(milliseconds(60'000)));
}

#endif

TEST(ThreadPool, OneThreadReceivesAlsoAfterAMessageThatWaited) {
  OneMessage one;
  one.pool.start();
  const auto start = Clock::now();
  while (one.receivers() == 0 && seconds_since(start) < 30) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(one.pool.stop(milliseconds(60'000)));
  EXPECT_GE(one.receivers(), 1U);
  EXPECT_EQ(one.most_at_once(), 1);
}

}  // namespace
}  // namespace lockstep
