#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/spin_lock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/rpc/call_table.hpp>
#include <lockstep/rpc/crew.hpp>
#include <lockstep/rpc/future.hpp>
#include <lockstep/rpc/late_answers.hpp>
#include <lockstep/rpc/options.hpp>
#include <lockstep/rpc/outbox.hpp>
#include <lockstep/rpc/work_watch.hpp>

namespace lockstep::rpc {

class References;
struct CallScope;

/// Until when its caller waits, counted from now, when it has come.
[[nodiscard]] inline Clock::time_point deadline_of(const Head& head) {
  return Clock::now() + bounded(std::chrono::milliseconds(head.timeout_ms));
}

/// Whom a call's result goes to.
struct ReplyTo {
  Agent* agent = nullptr;
  const Function* function = nullptr;
  Kind kind = Kind::call;
  int caller = -1;
  std::uint64_t id = 0;
  Clock::time_point deadline = Clock::time_point::max();  ///< of the caller
  std::uint64_t reference = 0;                            ///< of create: the object that is to be
  std::uint64_t scope = 0;                                ///< CallHook
};

/// A call while its function is executed.
class Execution {
 public:
  Execution(IncomingMessage& message, const ReplyTo& reply) : message_(message), reply_(reply) {}
  [[nodiscard]] IncomingMessage& message() const noexcept { return message_; }
  [[nodiscard]] const ReplyTo& reply() const noexcept { return reply_; }

 private:
  IncomingMessage& message_;
  ReplyTo reply_;
};

/// What a shutdown found.
struct ShutdownReport {
  /// References that this rank still held: they were taken back.
  std::int64_t taken_back = 0;
  /// Objects of this rank that were still referred to after that, and by whom.
  std::vector<std::string> left;
  /// Calls that were not answered: of a shutdown at once only.
  std::int64_t unanswered = 0;
};

/// One rank's end of all calls. Requests and answers have a group each, of all ranks. Requests are
/// received and executed by the crew; answers are received by who waits for one: of several that
/// wait, one receives and completes the others' futures too. Where futures have continuations and
/// nobody waits, a thread of its own does. Thread-safe.
class Agent final : private Employer {
 public:
  /// Collective over `group`, see rpc::init.
  static void open(const std::string& name, ProcessGroup& group, const Options& options);
  /// The calling thread's: the process's, or, where ranks are threads, the rank's. Throws.
  [[nodiscard]] static Agent& current();
  [[nodiscard]] static Agent* current_or_null() noexcept;
  /// Sets the calling thread's; returns the one before.
  static Agent* exchange_current(Agent* agent) noexcept;
  ~Agent();

  /// See rpc::shutdown.
  static ShutdownReport close(Agent& agent, bool graceful);

  [[nodiscard]] const std::vector<WorkerInfo>& workers() const noexcept { return workers_; }
  [[nodiscard]] int id() const noexcept { return id_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  [[nodiscard]] bool has_threads() const noexcept { return has_threads_; }
  [[nodiscard]] References& references() noexcept { return *references_; }
  /// Throws InputError if there is no such worker.
  [[nodiscard]] int resolve(const To& to) const;
  /// "rank 0 of 2 (trainer)".
  [[nodiscard]] std::string speaker() const;
  /// Throws where no call is possible any more.
  void expect_open() const;

  // ---- calls

  /// Sends a call; `state` will be completed by its answer, or at its deadline.
  void call(OutgoingMessage& message, int to, const Function& function,
            const IntrusivePtr<FutureState>& state, std::chrono::milliseconds timeout);
  /// Sends what is not answered.
  void send_control(OutgoingMessage& message, int to);
  /// Answers with a result, which has been written. Where that fails the caller is told.
  void answer(const ReplyTo& to, OutgoingMessage& message) noexcept;
  /// With the text, or as much of it as a message may hold.
  void refuse(const ReplyTo& to, Status status, const std::string& text) noexcept;
  /// Those that are not answered when their functions return.
  [[nodiscard]] LateAnswers<ReplyTo>& late_answers() noexcept { return late_answers_; }
  /// A call that has come is over, its answer sent.
  void count_handled() noexcept { handled_.fetch_add(1); }

  // ---- waiting

  /// Moves calls on until `state` is complete or `until`; with Clock::time_point::min() once.
  static void drive(FutureState& state, Clock::time_point until);
  /// When a wait that begins now is to end.
  [[nodiscard]] static Clock::time_point default_deadline();
  /// Futures of calls have got, or lost, so many continuations.
  void watch_answers(int more) noexcept;
  /// Executes calls until `until`, or until `over`, on this thread where there are no others.
  void serve(Clock::time_point until, const std::function<bool()>& over);

  /// Malformed messages that have been refused.
  [[nodiscard]] std::int64_t refused() const noexcept { return refused_.load(); }

 private:
  Agent(const std::string& name, ProcessGroup& group, const Options& options);
  /// At the end of the process.
  static void leave_all() noexcept;

  // ---- Employer
  Request* receive(std::chrono::microseconds at_most, bool soon) override;
  bool is_long(const Request& request) noexcept override;
  void execute(Request* request) noexcept override;
  void nudge() noexcept override;
  void lost(const std::exception& error) noexcept override;
  void moved_in() noexcept override;

  // ---- sending
  enum class Channel : std::uint8_t { requests, answers };
  void post(Channel channel, OutgoingMessage& message, int to, const char* name);
  /// The same of a request that is counted as sent.
  void post_counted(OutgoingMessage& message, int to, const char* name);
  void send_notice(Kind kind, int to) noexcept;
  [[nodiscard]] bool is_all_sent() const noexcept {
    return requests_out_->is_pushed() && answers_out_->is_pushed();
  }
  /// Moves on what could not be sent at once; how long the caller may sleep, `at_most` or less.
  [[nodiscard]] std::chrono::microseconds push_unsent(std::chrono::microseconds at_most);
  /// How long a call may take that is made within another.
  [[nodiscard]] std::chrono::milliseconds limit_within(const CallScope& scope,
                                                       Clock::time_point now,
                                                       std::chrono::milliseconds limit) const;
  /// The message as its receiver would get it.
  [[nodiscard]] IncomingMessage brought_home(OutgoingMessage& message);

  // ---- requests
  [[nodiscard]] Request* take_request();
  /// Takes a message apart; nullptr if it is not one for the crew.
  [[nodiscard]] Request* admit(Tensor bytes, int from);
  /// Executes a message that is no call.
  void take_notice(IncomingMessage& message);
  /// Of a message that could not be taken apart.
  void refuse_malformed(const std::optional<Head>& head, int from, const std::string& why) noexcept;
  void receive_tensors(IncomingMessage& message);
  void run(Request& request);

  // ---- answers
  /// An answer that has come, and what it answers: without state, if nobody waits any more.
  struct Come {
    CallTable::Entry entry;
    IncomingMessage message;
  };
  /// One whose tensors are on their way. What it answers stays in the table until they are here.
  struct Arriving {
    IncomingMessage message;
    std::vector<Work> works;
    [[nodiscard]] bool is_over();
  };
  /// Who waits while another one has the role of the receiver of answers. The first takes it next.
  struct Follower {
    FutureState* state;
    std::atomic<bool> called = false;  ///< it is the first now, or the role may be free
    void call() noexcept;
  };
  // With the role of the receiver of answers:
  [[nodiscard]] std::optional<Come> look_for_answer();
  [[nodiscard]] std::optional<Come> take_answer(Tensor bytes, int from);
  /// With what it answers, out of the table.
  [[nodiscard]] Come taken(IncomingMessage&& message);
  [[nodiscard]] std::optional<Come> take_arrived();
  /// The same; gives the role up.
  void receive_answers(FutureState& state, Clock::time_point until);
  // Without it:
  bool receive_answers_once();
  void complete(Come& come) noexcept;
  void complete(const CallTable::Entry& entry, IncomingMessage& message) noexcept;
  static void await_passively(FutureState& state, Clock::time_point until);
  /// `looks`: before it sleeps.
  void follow(FutureState& state, Clock::time_point until, bool looks);
  void promote_follower() noexcept;
  void await(FutureState& state, Clock::time_point until);
  void await_without_threads(const FutureState* state, Clock::time_point until,
                             const std::function<bool()>& over);
  [[nodiscard]] bool step();
  void fail(const CallTable::Entry& entry, std::exception_ptr why) noexcept;
  void expire(const CallTable::Entry& entry, const std::string& callee) noexcept;
  void expire(FutureState& state) noexcept;
  void expire_overdue() noexcept;
  void run_answerer();
  void expire_late_answers() noexcept;
  /// What its process is doing.
  [[nodiscard]] std::string state_of(int worker) const;

  // ---- ending
  [[nodiscard]] ShutdownReport shut_down(bool graceful);
  void come_to_rest();
  [[nodiscard]] WorkDone work_done() const;
  [[nodiscard]] bool is_overdue() const;  ///< a shutdown
  void ask_who_works();
  /// Says which workers' processes are stopped, unless it is known.
  void name_stopped(std::set<int>& known) const;
  void receive_nudges();
  [[nodiscard]] bool all_at_rest(std::vector<std::int64_t>& before,
                                 Clock::time_point shutdown_began);
  void drop_arriving() noexcept;
  /// Every call that has not been answered; says how many.
  std::int64_t fail_all(const std::exception_ptr& why) noexcept;

  struct Station {  // where a worker lives
    std::string host;
    int pid = 0, world_rank = -1;
    std::vector<int> cores;  ///< that it may run on
  };
  /// Whether the workers of this machine are more than the cores that they may run on.
  [[nodiscard]] bool is_crowded() const;

  Options options_;
  Limits limits_;
  int id_ = 0;
  bool has_threads_ = true;
  std::chrono::microseconds awake_{200};  // how long who waits looks before it sleeps
  int thread_rank_ = 0;
  int math_threads_ = 1;
  std::vector<WorkerInfo> workers_;
  std::vector<Station> stations_;
  std::shared_ptr<ProcessGroup> requests_, answers_;

  std::atomic<bool> open_ = true;
  mutable std::mutex reason_mutex_;
  std::string reason_;  // why it is not open

  std::unique_ptr<Outbox> requests_out_, answers_out_;
  Receipts requests_in_, answers_in_;
  std::atomic<std::uint32_t> next_tag_ = 0;
  std::atomic<std::int64_t> sent_ = 0, handled_ = 0, refused_ = 0;
  std::atomic<int> nudges_ = 0;  // on their way
  CallTable calls_;
  LateAnswers<ReplyTo> late_answers_;
  WorkWatch watch_;

  Work request_work_;               // of the crew's receiver
  Request* local_first_ = nullptr;  // without threads: what this rank has called itself
  Request* local_last_ = nullptr;
  int executing_ = 0;  // without threads: calls, one within another

  SpinLock answers_lock_;  // the role of who receives answers; guards the next two
  Work answer_work_;
  std::vector<Arriving> arriving_;
  SpinLock answer_posted_lock_;  // around each change of answer_work_, and of who has not the role
  std::mutex followers_mutex_;
  std::list<Follower> followers_;

  std::atomic<int> watched_ = 0;
  std::mutex answerer_mutex_;
  std::condition_variable answerer_called_;
  std::thread answerer_;
  bool answerer_stops_ = false;

  std::unique_ptr<References> references_;
  Crew crew_;
};

}  // namespace lockstep::rpc
