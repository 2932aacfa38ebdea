#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <lockstep/rpc/answers.hpp>
#include <lockstep/rpc/availability.hpp>
#include <lockstep/rpc/late_answers.hpp>
#include <lockstep/rpc/references.hpp>
#include <lockstep/rpc/reply.hpp>
#include <lockstep/rpc/termination.hpp>
#include <lockstep/rpc/thread_pool.hpp>
#include <lockstep/rpc/transport.hpp>
#include <lockstep/rpc/worker_table.hpp>

namespace lockstep::rpc {

/// Receives, executes and answers other ranks' requests: on the pool, or, without threads, on
/// waiting threads (step()). Thread-safe.
class Server final : private RequestHandler {
 public:
  /// The components it works with.
  struct Parts {
    Agent& agent;
    const WorkerTable& workers;
    Transport& transport;
    References& references;
    Answers& answers;
    Termination& termination;
    Availability& availability;
  };
  /// `begin_thread` is called at the beginning of each thread. `threads`: Options::workers, or 0.
  Server(const Parts& parts, int threads, std::function<void()> begin_thread);

  void start() { pool_.start(); }
  /// Executes a call of this rank to itself.
  void take(IncomingMessage&& message);

  /// Answers with a result, which has been written. If that fails, the caller gets the error.
  void answer(const Reply& to, OutgoingMessage& message) noexcept;
  /// With the text, or as much of it as a message may hold.
  void refuse(const Reply& to, Status status, const std::string& text) noexcept;
  /// Calls that are answered after their functions return.
  [[nodiscard]] LateAnswers<Reply>& late_answers() noexcept { return late_answers_; }
  void expire_late_answers() noexcept;
  /// A call that has come is over, its answer sent.
  void count_handled() noexcept { transport_.count().handled.fetch_add(1); }

  // ---- without threads
  static constexpr int most_on_one_stack = 1000;
  /// Executes a request if one has arrived; true if so. Further ones within it, up to a bound.
  bool step();
  /// Sleeps until a request arrives, or for `at_most`.
  void nap(std::chrono::microseconds at_most);

  [[nodiscard]] ThreadPool& pool() noexcept { return pool_; }
  /// Ends the threads; false if some are still in a call after `at_most`.
  bool stop(std::chrono::milliseconds at_most) { return pool_.stop(at_most); }
  /// Ends receiving, once the threads have ended.
  void cancel(std::chrono::milliseconds at_most);
  /// Waits for the end of the last receive.
  void await_end(std::chrono::milliseconds at_most) { static_cast<void>(work_.wait_for(at_most)); }

 private:
  // ---- RequestHandler
  Request* receive(std::chrono::microseconds at_most, bool soon) override;
  bool is_long(const Request& request) noexcept override;
  void execute(Request* request) noexcept override;
  void wake() noexcept override;
  void lost(const std::exception& error) noexcept override { answers_.lost(error); }
  void begin_thread() noexcept override { begin_thread_(); }

  [[nodiscard]] Request* take_message();
  /// Takes a message apart; nullptr if it is not one for the pool.
  [[nodiscard]] Request* admit(Tensor bytes, int from);
  /// Executes a message that is no call.
  void take_notice(IncomingMessage& message);
  /// Of a message that could not be taken apart.
  void refuse_malformed(const std::optional<Head>& head, int from, const std::string& why) noexcept;
  void receive_tensors(IncomingMessage& message);
  void run(Request& request);

  Agent& agent_;
  const WorkerTable& workers_;
  Transport& transport_;
  References& references_;
  Answers& answers_;
  Termination& termination_;
  Availability& availability_;
  const bool has_threads_;
  const std::function<void()> begin_thread_;
  LateAnswers<Reply> late_answers_;
  Work work_;                       // of the pool's leader
  Request* local_first_ = nullptr;  // without threads: this rank's calls to itself
  Request* local_last_ = nullptr;
  int executing_ = 0;                       // without threads: calls, one within another
  std::atomic<bool> wake_is_sent_ = false;  // and not received
  ThreadPool pool_;
};

}  // namespace lockstep::rpc
