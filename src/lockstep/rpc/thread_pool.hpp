#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <lockstep/rpc/message.hpp>

namespace lockstep::rpc {

/// A call that has come.
struct Request {
  IncomingMessage message;
  Request* next = nullptr;
};

/// The pool's client.
class RequestHandler {
 public:
  /// Blocks until a request has come, at most `at_most`; nullptr if none has. `soon`: the next is
  /// likely to follow at once. By one thread at a time. Throws if no request can arrive any more.
  [[nodiscard]] virtual Request* receive(std::chrono::microseconds at_most, bool soon) = 0;
  /// True if other threads should receive while it is executed.
  [[nodiscard]] virtual bool is_long(const Request& request) noexcept = 0;
  /// Executes and frees it.
  virtual void execute(Request* request) noexcept = 0;
  /// Ends a receive() that runs or follows: one for all calls of wake() before it ends.
  virtual void wake() noexcept = 0;
  /// receive() threw.
  virtual void lost(const std::exception& error) noexcept = 0;
  /// Called first on each thread of the pool.
  virtual void begin_thread() noexcept = 0;

 protected:
  ~RequestHandler() = default;
};

/// The threads that receive and execute a rank's calls: leader and followers (Schmidt, Stal,
/// Rohnert, Buschmann: Pattern-Oriented Software Architecture 2, 2000).
///
/// One thread leads: it receives a request and executes it at once, so that no call waits for a
/// thread to wake. Before a long call it passes the lead to another thread, which sleeps until the
/// next call. A function that turns out to be long, or that blocks, cannot hold up the agent: a
/// thread loses the lead after it has been executing for some milliseconds (up to 24 after a time
/// without calls), and gives it up before it waits for an answer.
///
/// A thread that waits for an answer is not counted: Options::workers others keep working, and
/// spare threads are started for that. A waiting thread executes no other call: that call could
/// want a lock which the waiting function holds.
class ThreadPool {
 public:
  ThreadPool(RequestHandler& handler, int workers) : handler_(handler), workers_(workers) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void start();
  /// Ends the threads; true once all have ended, false if some are still in a call after `at_most`:
  /// they end when it returns.
  bool stop(std::chrono::milliseconds at_most);

  /// Adds a request that did not come from receive().
  void push(Request* request);
  /// Marks the calling thread as waiting while alive.
  class Blocked {
   public:
    explicit Blocked(ThreadPool& pool);
    ~Blocked();
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

   private:
    ThreadPool* pool_ = nullptr;
  };
  /// True if the calling thread belongs to a pool.
  [[nodiscard]] static bool is_member() noexcept;

 private:
  void run(std::uint64_t number);
  void start_thread();
  void lead(std::unique_lock<std::mutex>& lock, std::uint64_t number);
  [[nodiscard]] bool give_role_up();
  [[nodiscard]] Request* pop();
  void append(Request* request);
  /// Wakes or starts a thread for queued work or the free role; false if all threads are busy.
  bool wake_follower();
  void block();
  void unblock();

  RequestHandler& handler_;
  const int workers_;
  // The leader, its number of executions, and whether it is executing: see the .cpp file.
  std::atomic<std::uint64_t> role_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::condition_variable ended_;
  Request* first_ = nullptr;
  Request* last_ = nullptr;
  int queued_ = 0;
  int running_ = 0;
  int blocked_ = 0;
  int idle_ = 0;
  bool has_watcher_ = false;
  bool given_up_ = false;  // the lead was given up for a long call
  bool short_of_threads_ = false;
  std::uint64_t started_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::rpc
