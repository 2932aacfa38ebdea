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

/// What the crew works for.
class Employer {
 public:
  /// Blocks until a request has come, at most `at_most`; nullptr if none has. `soon`: the next is
  /// likely to follow at once. By one thread at a time. Throws where none can come any more.
  [[nodiscard]] virtual Request* receive(std::chrono::microseconds at_most, bool soon) = 0;
  /// Whether others should receive while it is executed.
  [[nodiscard]] virtual bool is_long(const Request& request) noexcept = 0;
  /// Executes and frees it.
  virtual void execute(Request* request) noexcept = 0;
  /// Ends a receive().
  virtual void nudge() noexcept = 0;
  /// receive() threw.
  virtual void lost(const std::exception& error) noexcept = 0;
  /// On each of the crew's threads, at its beginning.
  virtual void moved_in() noexcept = 0;

 protected:
  ~Employer() = default;
};

/// The threads that receive and execute a rank's calls.
///
/// One of them has the role of the receiver, and executes at once what it has received: no call
/// waits until a thread is awake. Before what is long it gives the role to another one, who sleeps
/// until the next call. A function that turns out to be long, or that blocks, cannot hold up the
/// agent: the role is taken from a thread that has been executing for some milliseconds, up to 24
/// if nobody had called for a while, and given up by one that waits for an answer.
///
/// Who waits for an answer does not count: as many others as Options::workers go on, spare ones
/// being started for that. A waiting thread executes no other call: that call could want a lock
/// which the waiting function holds.
class Crew {
 public:
  Crew(Employer& employer, int workers) : employer_(employer), workers_(workers) {}
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start();
  /// Ends the threads; true once all have ended, false if some are still in a call after `at_most`:
  /// they end when it returns.
  bool stop(std::chrono::milliseconds at_most);

  /// For a request that came in another way.
  void push(Request* request);
  /// By the thread itself, around a wait.
  class Blocked {
   public:
    explicit Blocked(Crew& crew);
    ~Blocked();
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

   private:
    Crew* crew_ = nullptr;
  };
  /// The calling thread is of some crew.
  [[nodiscard]] static bool is_member() noexcept;

 private:
  void run(std::uint64_t number);
  void hire();
  void lead(std::unique_lock<std::mutex>& lock, std::uint64_t number);
  [[nodiscard]] bool give_role_up();
  [[nodiscard]] Request* pop();
  void append(Request* request);
  /// Somebody is to look whether there is something to do; false if all are at work.
  bool call_somebody();
  void block();
  void unblock();

  Employer& employer_;
  const int workers_;
  // Who has the role, which of its executions it is in, and whether it is in one: see the .cpp
  // file.
  std::atomic<std::uint64_t> role_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::condition_variable ended_;
  Request* first_ = nullptr;
  Request* last_ = nullptr;
  int queued_ = 0;
  int running_ = 0;
  int blocked_ = 0;
  int idle_ = 0;
  bool somebody_watches_ = false;
  bool given_up_ = false;  // the role, by who has a long call
  bool short_of_threads_ = false;
  std::uint64_t hired_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::rpc
