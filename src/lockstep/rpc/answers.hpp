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

/// The answers to a rank's calls: a thread that waits for an answer receives them. Of several that
/// wait, one receives and completes the others' futures too. If futures have continuations and no
/// thread waits, a dedicated thread does; if it cannot be started, the threads that wait for what
/// the continuations complete. Calls without an answer end at their deadlines.
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
  /// This rank's answer to one of its own calls.
  void take(std::uint64_t id, IncomingMessage& message) noexcept;

  /// Receives answers, or sleeps while another thread does, until `state` is complete or `until`.
  /// The state is overdue then if its deadline has passed.
  void await(FutureState& state, Clock::time_point until);
  /// Sleeps until `state`, which is no call's, is complete, by whomever, or `until`. Receives
  /// answers meanwhile if the dedicated thread cannot be started.
  void await_other(FutureState& state, Clock::time_point until);
  /// Receives answers that have arrived; true if there were any.
  bool receive();
  /// Receives one answer, for use where only one thread ever receives.
  bool receive_one();
  /// Sleeps until an answer arrives, or for `at_most`.
  void nap(std::chrono::microseconds at_most);

  /// The number of continuations on futures of calls has changed by this much.
  void watch(int more) noexcept;

  /// The error of a call whose deadline has passed. It is complete then.
  void expire(FutureState& state) noexcept;
  void expire_overdue() noexcept;
  /// No answer can come any more: every call fails.
  void lost(const std::exception& error) noexcept;
  /// Fails every unanswered call; returns their number.
  std::int64_t fail_all(const std::exception_ptr& why) noexcept;

  /// Ends the thread.
  void stop() noexcept;
  /// Ends receiving; may have to wait for the last receive.
  [[nodiscard]] Work cancel() noexcept;

 private:
  /// An answer that has arrived, with its call; without state if no thread waits any more.
  struct Received {
    CallTable::Entry entry;
    IncomingMessage message;
    std::exception_ptr failure;  ///< why its tensors cannot be received
  };
  /// An answer whose tensors are still arriving. Its call stays in the table until they are here.
  struct Arriving {
    IncomingMessage message;
    std::vector<Work> works;
    [[nodiscard]] bool is_over();
  };
  /// Waits while another thread is the receiver. The first takes it next.
  struct Follower {
    explicit Follower(FutureState* whose) : state(whose) {}
    FutureState* state;
    std::atomic<bool> called = false;  ///< it is the first now, or the role may be free
    void call() noexcept;
  };
  // With the role of the receiver:
  [[nodiscard]] std::optional<Received> look();
  [[nodiscard]] std::optional<Received> take_message(Tensor bytes, int from);
  /// Removes its call from the table.
  [[nodiscard]] Received taken(IncomingMessage&& message);
  /// Removes a call from the table; threads that wait for it need not receive answers any more.
  [[nodiscard]] CallTable::Entry take_call(std::uint64_t id);
  [[nodiscard]] std::optional<Received> take_arrived();
  /// The same; gives the role up.
  void receive_until(FutureState& state, Clock::time_point until);
  // Without it:
  void complete(Received& received) noexcept;
  void complete(const CallTable::Entry& entry, IncomingMessage& message) noexcept;
  /// Sleeps until `state` is complete, by whomever, or `until`.
  static void await_passively(FutureState& state, Clock::time_point until);
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

  SpinLock role_;  // held by the receiver; guards the next two
  Work work_;
  std::vector<Arriving> arriving_;
  SpinLock posted_;  // held for each change of work_ and by threads that are not the receiver
  std::mutex followers_mutex_;
  std::list<Follower> followers_;

  const std::function<void()> begin_thread_;
  std::atomic<int> watched_ = 0;
  std::atomic<bool> lacks_thread_ = false;  // it could not be started
  std::mutex thread_mutex_;                 // guards the members below
  std::condition_variable thread_called_;
  std::thread thread_;
  bool thread_stops_ = false;
};

}  // namespace lockstep::rpc
