#include <lockstep/rpc/thread_pool.hpp>

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/log.hpp>
#include <lockstep/base/trace.hpp>

namespace lockstep::rpc {
namespace {

using std::chrono::milliseconds;

// A call that holds the role for this long loses it. The watcher checks at this interval, and less
// often when idle: a check takes about 30 us of a core on a virtual machine.
constexpr milliseconds patience{4}, patience_when_idle{20};
constexpr std::chrono::seconds long_time{10};

// role_: 0 if free; else member | executions | executing.
constexpr std::uint64_t executing = 1;
constexpr std::uint64_t one_execution = 2;
constexpr unsigned member_shift = 40;
constexpr std::uint64_t role_of(std::uint64_t number) { return number << member_shift; }

struct Member {
  ThreadPool* pool = nullptr;
  std::uint64_t number = 0;
  int waits = 0;  // nesting depth
};
thread_local Member self;

}  // namespace

ThreadPool::~ThreadPool() { static_cast<void>(stop(std::chrono::hours(1))); }

bool ThreadPool::is_member() noexcept { return self.pool != nullptr; }

void ThreadPool::start() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < workers_; ++i) start_thread();
}

void ThreadPool::start_thread() {
  threads_.emplace_back([this, number = ++started_] { run(number); });
  ++running_;
}

bool ThreadPool::stop(milliseconds at_most) {
  std::vector<std::thread> threads;
  bool all = true;
  {
    std::unique_lock lock(mutex_);
    if (threads_.empty()) return true;
    stopping_.store(true);
    changed_.notify_all();
    lock.unlock();
    handler_.wake();
    lock.lock();
    all = ended_.wait_for(lock, at_most, [&] { return running_ == 0; });
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    if (all) {
      thread.join();
    } else {
      thread.detach();  // the agent lives as long as the process
    }
  }
  return all;
}

void ThreadPool::run(std::uint64_t number) {
  self = {.pool = this, .number = number};
  name_thread("rpc");
  handler_.begin_thread();
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  while (!stopping_.load()) {
    if (Request* request = pop()) {
      if (idle_ > 0 && !has_watcher_) changed_.notify_one();
      lock.unlock();
      handler_.execute(request);
      lock.lock();
      continue;
    }
    std::uint64_t role = role_.load();
    const bool lasts = role == seen && (role & executing) != 0;
    if ((role == 0 || lasts) && role_.compare_exchange_strong(role, role_of(number))) {
      lead(lock, number);
      continue;
    }
    const bool no_calls = role == seen && (role & executing) == 0;
    seen = role;
    ++idle_;
    if (has_watcher_) {
      changed_.wait(lock);
    } else {
      has_watcher_ = true;
      changed_.wait_for(lock, no_calls ? patience_when_idle : patience);
      has_watcher_ = false;
      if (idle_ > 1 && (first_ || role_.load() == 0)) changed_.notify_one();
    }
    --idle_;
  }
  --running_;
  ended_.notify_all();
}

void ThreadPool::lead(std::unique_lock<std::mutex>& lock, std::uint64_t number) {
  // Another thread watches from now on.
  if (idle_ > 0 && !has_watcher_) changed_.notify_one();
  bool soon = !std::exchange(given_up_, false);
  lock.unlock();
  std::uint64_t mine = role_of(number);
  while (!stopping_.load(std::memory_order_relaxed)) {
    Request* request = nullptr;
    try {
      request = handler_.receive(long_time, soon);
    } catch (const std::exception& error) {
      handler_.lost(error);
      lock.lock();
      changed_.wait(lock, [this] { return stopping_.load(); });
      return;
    }
    if (!request) {
      // Woken for a queued request that no other thread could take. Or the message needed no
      // execution, and its destructor waited for a call, which gave the role up.
      lock.lock();
      const bool leads = role_.load() == mine;
      if (leads) request = pop();
      const bool more = first_ != nullptr;
      lock.unlock();
      // One wake may stand for many requests, and the next one is for whoever leads then.
      if (more) handler_.wake();
      if (!leads) {
        lock.lock();
        return;
      }
      if (!request) continue;
    } else if (handler_.is_long(*request)) {
      lock.lock();
      const bool given = role_.load() == mine && give_role_up();
      lock.unlock();
      if (given) {
        handler_.execute(request);
        lock.lock();
        return;
      }
    }
    std::uint64_t busy = (mine + one_execution) | executing;
    if ((busy >> member_shift) != number) busy = role_of(number) | executing;  // the count is full
    bool leads = role_.compare_exchange_strong(mine, busy, std::memory_order_acq_rel);
    handler_.execute(request);
    mine = busy & ~executing;
    leads = leads && role_.compare_exchange_strong(busy, mine, std::memory_order_acq_rel);
    if (!leads) {
      lock.lock();
      return;
    }
    soon = true;
  }
  role_.compare_exchange_strong(mine, 0);
  lock.lock();
}

/// False if all other threads are busy.
bool ThreadPool::give_role_up() {
  if (queued_ >= idle_ && running_ - blocked_ >= workers_) return false;
  role_.store(0);
  given_up_ = true;
  return wake_follower();
}

void ThreadPool::append(Request* request) {
  request->next = nullptr;
  (last_ ? last_->next : first_) = request;
  last_ = request;
  ++queued_;
}

Request* ThreadPool::pop() {
  Request* const request = first_;
  if (!request) return nullptr;
  first_ = request->next;
  if (!first_) last_ = nullptr;
  --queued_;
  return request;
}

void ThreadPool::push(Request* request) {
  {
    const std::lock_guard lock(mutex_);
    append(request);
    if (wake_follower()) return;
  }
  handler_.wake();  // wakes the receiver, which may be the only thread
}

// A thread that was woken but has not got the lock yet still counts as idle; it takes one request
// only.
bool ThreadPool::wake_follower() {
  const int wanted = queued_ + (role_.load() == 0 ? 1 : 0);
  if (wanted > idle_ && running_ - blocked_ < workers_ && !stopping_.load()) {
    try {
      start_thread();
      return true;
    } catch (const std::system_error& error) {  // the existing threads must do
      if (!std::exchange(short_of_threads_, true)) {
        log(LogLevel::warning, fmt::format("rpc: no more than {} threads can be started ({}), so "
                                           "nested calls may wait without end. Raise `ulimit -u`.",
                                           running_, error.what()));
      }
    }
  }
  changed_.notify_one();
  return wanted <= idle_;
}

void ThreadPool::block() {
  if (self.waits++ > 0) return;
  const std::lock_guard lock(mutex_);
  ++blocked_;
  std::uint64_t role = role_.load();
  if (role >> member_shift == self.number) role_.compare_exchange_strong(role, 0);
  if ((first_ || role_.load() == 0) && !wake_follower() && blocked_ >= running_) {
    --blocked_;
    --self.waits;
    throw Error(fmt::format(
        "rpc: {} threads wait for answers, and no other can be started for incoming calls: this "
        "call would wait without end. Nest calls less deeply, or raise `ulimit -u`",
        running_));
  }
}

void ThreadPool::unblock() {
  if (--self.waits > 0) return;
  const std::lock_guard lock(mutex_);
  --blocked_;
}

ThreadPool::Blocked::Blocked(ThreadPool& pool) {
  if (self.pool != &pool) return;
  pool_ = &pool;
  pool.block();
}
ThreadPool::Blocked::~Blocked() {
  if (pool_) pool_->unblock();
}

}  // namespace lockstep::rpc
