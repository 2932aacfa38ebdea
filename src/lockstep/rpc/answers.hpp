#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/spin_lock.hpp>
#include <lockstep/rpc/availability.hpp>
#include <lockstep/rpc/call_table.hpp>
#include <lockstep/rpc/references.hpp>
#include <lockstep/rpc/transport.hpp>
#include <lockstep/rpc/worker_table.hpp>

namespace lockstep::rpc {

/// The answers to a rank's calls: they are received by who waits for one. Of several that wait, one
/// receives and completes the others' futures too. Where futures have continuations and nobody
/// waits, a thread of its own does. Calls that are not answered end at their deadlines.
/// Thread-safe.
class Answers {
 public:
  /// `begin_thread` is called at the beginning of a thread that is started.
  Answers(const WorkerTable& workers, Transport& transport, References& references,
          Availability& availability, std::function<void()> begin_thread);

  /// Enters a call, before it is sent; returns its number.
  [[nodiscard]] std::uint64_t expect(CallTable::Entry&& call) {
    return calls_.add(std::move(call));
  }
  /// It was not sent after all.
  void forget(std::uint64_t id) {
    if (calls_.take(id).state) calls_.over();
  }
  /// Calls that are not over.
  [[nodiscard]] std::size_t open() const noexcept { return calls_.open(); }
  /// This rank's answer to a call of its own.
  void take(std::uint64_t id, IncomingMessage& message) noexcept;

  /// Receives answers, or sleeps while another thread does, until `state` is complete or `until`.
  /// The state is overdue then if its deadline has passed.
  void await(FutureState& state, Clock::time_point until);
  /// Sleeps until `state` is complete, by whomever, or `until`.
  static void await_passively(FutureState& state, Clock::time_point until);
  /// Receives what is there; true if something was.
  bool receive();
  /// The same of one answer, where one thread only ever receives.
  bool receive_one();
  /// Sleeps until an answer is there, or for `at_most`.
  void nap(std::chrono::microseconds at_most);

  /// Futures of calls have got, or lost, so many continuations.
  void watch(int more) noexcept;

  /// Of the call that it is of, whose deadline has passed. It is complete then.
  void expire(FutureState& state) noexcept;
  void expire_overdue() noexcept;
  /// No answer can come any more: every call fails.
  void lost(const std::exception& error) noexcept;
  /// Every call that has not been answered; says how many.
  std::int64_t fail_all(const std::exception_ptr& why) noexcept;

  /// Ends the thread.
  void stop() noexcept;
  /// Ends what is being received; the last receive, which may have to be waited for.
  [[nodiscard]] Work cancel() noexcept;

 private:
  /// An answer that has come, and what it answers: without state, if nobody waits any more.
  struct Received {
    CallTable::Entry entry;
    IncomingMessage message;
  };
  /// One whose tensors are on their way. What it answers stays in the table until they are here.
  struct Arriving {
    IncomingMessage message;
    std::vector<Work> works;
    [[nodiscard]] bool is_over();
  };
  /// Who waits while another one has the role of the receiver. The first takes it next.
  struct Follower {
    explicit Follower(FutureState* whose) : state(whose) {}
    FutureState* state;
    std::atomic<bool> called = false;  ///< it is the first now, or the role may be free
    void call() noexcept;
  };
  // With the role of the receiver:
  [[nodiscard]] std::optional<Received> look();
  [[nodiscard]] std::optional<Received> take_message(Tensor bytes, int from);
  /// With what it answers, out of the table.
  [[nodiscard]] Received taken(IncomingMessage&& message);
  [[nodiscard]] std::optional<Received> take_arrived();
  /// The same; gives the role up.
  void receive_until(FutureState& state, Clock::time_point until);
  // Without it:
  void complete(Received& received) noexcept;
  void complete(const CallTable::Entry& entry, IncomingMessage& message) noexcept;
  /// `looks`: before it sleeps.
  void follow(FutureState& state, Clock::time_point until, bool looks);
  void promote_follower() noexcept;
  void fail(const CallTable::Entry& entry, std::exception_ptr why) noexcept;
  void expire(const CallTable::Entry& entry, const std::string& callee) noexcept;
  void run_thread();

  const WorkerTable& workers_;
  Transport& transport_;
  References& references_;
  Availability& availability_;
  CallTable calls_;

  SpinLock role_;  // of who receives; guards the next two
  Work work_;
  std::vector<Arriving> arriving_;
  SpinLock posted_;  // around each change of work_, and of who has not the role
  std::mutex followers_mutex_;
  std::list<Follower> followers_;

  const std::function<void()> begin_thread_;
  std::atomic<int> watched_ = 0;
  std::mutex thread_mutex_;  // guards what follows
  std::condition_variable thread_called_;
  std::thread thread_;
  bool thread_stops_ = false;
};

}  // namespace lockstep::rpc
