#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/rpc/answers.hpp>
#include <lockstep/rpc/availability.hpp>
#include <lockstep/rpc/references.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/rpc/server.hpp>
#include <lockstep/rpc/termination.hpp>
#include <lockstep/rpc/transport.hpp>
#include <lockstep/rpc/worker_table.hpp>

namespace lockstep::rpc {

/// One rank's end of all calls, which its parts make up:
///
///   caller                                          callee
///   call() -> Answers::expect, Transport::send  ->  Server::receive, execute
///   Answers::await <- ------------------------  <-  Server::answer, Transport::send
///
/// Thread-safe.
class Agent {
 public:
  /// Collective over `group`, see rpc::init.
  static void open(const std::string& name, ProcessGroup& group, const Options& options);
  /// The agent of the calling thread: of the process, or, where ranks are threads, of the rank.
  /// Throws.
  [[nodiscard]] static Agent& current();
  [[nodiscard]] static Agent* current_or_null() noexcept;
  /// Sets the calling thread's; returns the one before.
  static Agent* exchange_current(Agent* agent) noexcept;
  /// See rpc::shutdown.
  static ShutdownReport close(Agent& agent, bool graceful);

  [[nodiscard]] int id() const noexcept { return workers_.id(); }
  [[nodiscard]] const WorkerTable& workers() const noexcept { return workers_; }
  [[nodiscard]] const Limits& limits() const noexcept { return transport_.limits(); }
  [[nodiscard]] bool has_threads() const noexcept { return has_threads_; }
  [[nodiscard]] References& references() noexcept { return references_; }
  [[nodiscard]] Server& server() noexcept { return server_; }
  /// Throws CommError if no call is possible any more.
  void expect_open() const {
    if (!availability_.is_open()) availability_.expect_open(workers_.own_name());
  }
  /// Malformed messages that have been refused.
  [[nodiscard]] std::int64_t refused() noexcept { return transport_.count().refused.load(); }

  // ---- calls

  /// Sends a call; `state` will be completed by its answer, or at its deadline.
  void call(OutgoingMessage& message, int to, const Function& function,
            const IntrusivePtr<FutureState>& state, std::chrono::milliseconds timeout);
  /// Sends a message that only manages references.
  void send_control(OutgoingMessage& message, int to);

  // ---- waiting

  /// Moves calls on until `state` is complete or `until`; with Clock::time_point::min() once.
  static void drive(FutureState& state, Clock::time_point until);
  /// The deadline of a wait that begins now.
  [[nodiscard]] static Clock::time_point default_deadline();
  /// The number of continuations on futures of calls has changed by this much.
  void watch_answers(int more) noexcept {
    if (has_threads_) answers_.watch(more);
  }
  /// Executes calls until `until`, or until `over`, on this thread if there are no pool threads.
  void serve(Clock::time_point until, const std::function<bool()>& over);

 private:
  Agent(const std::string& name, ProcessGroup& group, const Options& options);
  /// At the end of the process.
  static void leave_all() noexcept;
  [[nodiscard]] ShutdownReport shut_down(bool graceful);
  /// On each of the rank's threads, at its beginning.
  void begin_thread();

  [[nodiscard]] std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout,
                                                   Clock::time_point now) const;
  void await(FutureState& state, Clock::time_point until);
  void await_without_threads(const FutureState* state, Clock::time_point until,
                             const std::function<bool()>& over);
  /// Makes progress on calls without blocking; true if there was any.
  bool step();
  void expire_overdue() noexcept;

  const bool has_threads_;
  const Options options_;
  const int thread_rank_;
  const int math_threads_;
  Availability availability_;
  WorkerTable workers_;
  Transport transport_;
  References references_;
  Answers answers_;
  Termination termination_;
  Server server_;
};

}  // namespace lockstep::rpc
