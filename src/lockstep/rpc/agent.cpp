#include <lockstep/rpc/agent.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/thread_level.hpp>
#include <lockstep/rpc/call_scope.hpp>
#include <lockstep/rpc/rref.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep::rpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// All agents of the process. One that is shut down stays: threads may still use it, and futures
/// and references refer to it.
struct Agents {
  std::mutex mutex;
  std::vector<std::unique_ptr<Agent>> all;
  int open = 0;
  std::atomic<Agent*> only = nullptr;  // the open one, if there is exactly one

  static Agents& of_process() {
    static auto* agents = new Agents;
    return *agents;
  }
};

thread_local Agent* agent_of_thread = nullptr;

constexpr std::chrono::seconds for_calls_in_progress{5}, for_the_last_receive{1};

void expect_backend(const ProcessGroup& group) {
  const std::string_view backend = group.backend();
  if (backend == "mpi" || backend == "threads") return;
  throw InputError(
      fmt::format("rpc::init: the group's backend must be mpi or threads, not {}", backend));
}

void expect_sensible(const Options& options) {
  if (options.workers >= 0 && options.timeout.count() > 0 &&
      options.shutdown_timeout.count() >= 0 && options.max_depth > 0 && options.inline_bytes >= 0 &&
      options.max_message_bytes >= 1024 && options.max_tensor_bytes > 0) {
    return;
  }
  throw InputError(fmt::format(
      "rpc::init: the options are out of range: timeout {} ms, shutdown_timeout {} ms, {} workers, "
      "max_depth {}, inline_bytes {}, max_message_bytes {} (1024 at least), max_tensor_bytes {}",
      options.timeout.count(), options.shutdown_timeout.count(), options.workers, options.max_depth,
      options.inline_bytes, options.max_message_bytes, options.max_tensor_bytes));
}

/// Without threads nested calls share one stack, which limits their depth.
Options bounded_by_stack(Options options, bool has_threads) {
  if (!has_threads) options.max_depth = std::min(options.max_depth, Server::most_on_one_stack);
  return options;
}

// A rank that polls for an answer may take the core that computes it, for milliseconds:
// sched_yield() does not yield to processes of other sessions, and launchers give each rank a
// session of its own (autogroups, sched(7)).
microseconds awake_among(const WorkerTable& workers) {
  return microseconds{workers.is_crowded() ? 0 : 200};
}

}  // namespace

// ---- current agent

void Agent::open(const std::string& name, ProcessGroup& group, const Options& options) {
  expect_backend(group);
  expect_sensible(options);
  if (agent_of_thread && agent_of_thread->availability_.is_open()) {
    throw Error("rpc::init: this rank is a worker already; shut it down first");
  }
  auto made = std::unique_ptr<Agent>(new Agent(name, group, options));
  Agent* const agent = made.get();
  Agents& agents = Agents::of_process();
  {
    const std::lock_guard lock(agents.mutex);
    agents.all.push_back(std::move(made));
    agents.only.store(++agents.open == 1 ? agent : nullptr);
  }
  // A program that ends by an exception, without shutdown(), must stop polling.
  static const int registered = std::atexit(&Agent::leave_all);
  static_cast<void>(registered);
  agent_of_thread = agent;
  if (agent->has_threads_) agent->server_.start();
  group.barrier();  // no rank may call another before that one is ready
}

ShutdownReport Agent::close(Agent& agent, bool graceful) {
  ShutdownReport report = agent.shut_down(graceful);
  Agents& agents = Agents::of_process();
  const std::lock_guard lock(agents.mutex);
  --agents.open;
  agents.only.store(nullptr);
  for (const auto& other : agents.all) {
    if (agents.open == 1 && other->availability_.is_open()) agents.only.store(other.get());
  }
  if (agent_of_thread == &agent) agent_of_thread = nullptr;
  return report;
}

void Agent::leave_all() noexcept {
  try {
    for (const auto& agent : Agents::of_process().all) {
      if (agent->availability_.is_open()) static_cast<void>(agent->shut_down(false));
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the process ends anyway
  }
}

Agent* Agent::current_or_null() noexcept {
  return agent_of_thread ? agent_of_thread : Agents::of_process().only.load();
}

Agent& Agent::current() {
  Agent* const agent = current_or_null();
  if (!agent) {
    throw Error(
        "this thread belongs to no worker: call rpc::init first, and make no calls after "
        "rpc::shutdown. Where several ranks are threads of one process, a thread that you start "
        "needs an rpc::WorksFor");
  }
  agent->expect_open();
  return *agent;
}

Agent* Agent::exchange_current(Agent* agent) noexcept {
  return std::exchange(agent_of_thread, agent);
}

// ---- construction and shutdown

Agent::Agent(const std::string& name, ProcessGroup& group, const Options& options)
    : has_threads_(options.workers > 0 && threads_may_communicate(group)),
      options_(bounded_by_stack(options, has_threads_)),
      thread_rank_(lockstep::thread_rank()),
      math_threads_(math_threads()),
      workers_(name, group),
      transport_(group, {options.inline_bytes, options.max_message_bytes, options.max_tensor_bytes},
                 awake_among(workers_), options.wake_by_datagrams && has_threads_),
      references_(*this),
      answers_(workers_, transport_, references_, availability_, [this] { begin_thread(); }),
      termination_(workers_, transport_, references_, answers_, availability_,
                   options.shutdown_timeout),
      server_({.agent = *this,
               .workers = workers_,
               .transport = transport_,
               .references = references_,
               .answers = answers_,
               .termination = termination_,
               .availability = availability_},
              has_threads_ ? options.workers : 0, [this] { begin_thread(); }) {
  static_cast<void>(to_here_function());
}

void Agent::begin_thread() {
  agent_of_thread = this;
  static thread_local std::unique_ptr<ThreadRank> identity;
  identity = std::make_unique<ThreadRank>(thread_rank_);
  if (math_threads() != math_threads_) set_math_threads(math_threads_);
}

ShutdownReport Agent::shut_down(bool graceful) {
  if (ThreadPool::is_member()) {
    throw Error("rpc::shutdown was called inside a function that runs for another worker");
  }
  ShutdownReport report;
  if (graceful) {
    expect_open();
    const auto move_on = [this] {
      const bool some = has_threads_ ? answers_.receive() : step();
      expire_overdue();
      return some;
    };
    termination_.await(move_on, has_threads_);
    report.taken_back = references_.held();
    termination_.await(move_on, has_threads_);  // all ranks have counted
    references_.take_all_back();
    termination_.await(move_on, has_threads_);
    report.left = references_.left();
    if (report.taken_back > 0 || !report.left.empty()) {
      std::string text =
          fmt::format("{}: rpc::shutdown released {} remote references that were still held",
                      workers_.own_name(), report.taken_back);
      for (const std::string& left : report.left) text += "; left: " + left;
      log(LogLevel::warning, text);
    }
  }
  availability_.close("it was shut down");
  report.unanswered = answers_.fail_all(
      std::make_exception_ptr(CommError(workers_.own_name() + ": the worker was shut down")));
  references_.clear();
  const bool ended = server_.stop(for_calls_in_progress);
  answers_.stop();
  Work answer;
  if (ended) {
    server_.cancel(for_calls_in_progress);
    answer = answers_.cancel();
  }
  if (graceful) {
    server_.await_end(for_the_last_receive);
    static_cast<void>(answer.wait_for(for_the_last_receive));
    transport_.close();
  }
  return report;
}

// ---- calls

void Agent::call(OutgoingMessage& message, int to, const Function& function,
                 const IntrusivePtr<FutureState>& state, milliseconds timeout) {
  expect_open();
  const auto now = Clock::now();
  const auto limit = limit_of(timeout, now);
  Head& head = message.head();
  head.depth = CallScope::of_thread().depth + 1;
  head.function = function.name_hash;
  head.signature = function.signature;
  head.timeout_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(limit.count(), 1, std::int64_t{0xffffffff}));
  if (state) {
    state->set_deadline(now + limit);
    head.id = answers_.expect(
        {.state = state, .name = function.name, .to = to, .start = now, .deadline = now + limit});
    state->set_call(this, head.id);
  }
  try {
    expect_open();  // again: a concurrent end of all calls could not see this one
    if (to != id()) {
      transport_.send(Channel::requests, message, to, function.name);
    } else {
      if (state) state->set_coming();
      server_.take(transport_.loop_back(message));
    }
  } catch (...) {
    if (state) answers_.forget(head.id);
    throw;
  }
  // Answers to calls that no thread waits for must not pile up. Continuations may call again, so
  // this is not nested.
  constexpr std::size_t many = 64;
  static thread_local bool receives = false;
  if (answers_.open() < many || receives) return;
  const struct Receiving {
    Receiving() { receives = true; }
    ~Receiving() { receives = false; }
  } receiving;
  static_cast<void>(answers_.receive());
}

milliseconds Agent::limit_of(milliseconds timeout, Clock::time_point now) const {
  const auto limit = floor<milliseconds>(bounded(timeout.count() > 0 ? timeout : options_.timeout));
  const CallScope& within = CallScope::of_thread();
  if (within.depth == 0) return limit;
  if (static_cast<int>(within.depth) >= options_.max_depth) {
    throw Error(fmt::format(
        "{}: {} nested calls wait for each other: more than Options::max_depth allows{}",
        workers_.own_name(), within.depth,
        has_threads_ ? "" : ", which is 1000 at most without threads"));
  }
  if (within.deadline == Clock::time_point::max()) return limit;
  const auto left = floor<milliseconds>(within.deadline - now);
  if (left.count() <= 0) {
    throw TimeoutError(workers_.own_name() +
                       ": a function made a call after the deadline of the call that it serves");
  }
  return std::min(limit, left);
}

void Agent::send_control(OutgoingMessage& message, int to) {
  if (to == id()) {
    IncomingMessage back = transport_.loop_back(message);
    references_.handle(back);
    return;
  }
  transport_.send(Channel::requests, message, to, "reference");
}

// ---- waiting

Clock::time_point Agent::default_deadline() {
  const Agent* const agent = current_or_null();
  return std::min(CallScope::of_thread().deadline,
                  deadline_in(agent ? agent->options_.timeout : Options{}.timeout));
}

void Agent::drive(FutureState& state, Clock::time_point until) {
  Agent* const agent = state.agent() ? state.agent() : current_or_null();
  if (!agent) {
    state.park(until);
  } else {
    agent->await(state, until);
  }
}

void Agent::await(FutureState& state, Clock::time_point until) {
  const bool is_call = state.agent() != nullptr;
  if (!has_threads_) {
    await_without_threads(&state, until, {});
  } else if (until == Clock::time_point::min()) {
    static_cast<void>(answers_.receive());
  } else {
    const TraceScope scope("rpc", "wait");
    const ThreadPool::Blocked blocked(server_.pool());
    if (is_call) {
      answers_.await(state, std::min(until, state.deadline()));
    } else {
      answers_.await_other(state, until);
    }
  }
  if (is_call && !state.done() && Clock::now() >= state.deadline()) answers_.expire(state);
}

bool Agent::step() {
  try {
    static_cast<void>(transport_.push_unsent(microseconds{0}));
    const bool some = answers_.receive_one();
    return server_.step() || some;
  } catch (const CommError& error) {
    answers_.lost(error);
    throw;
  }
}

void Agent::expire_overdue() noexcept {
  answers_.expire_overdue();
  server_.expire_late_answers();
}

void Agent::await_without_threads(const FutureState* state, Clock::time_point until,
                                  const std::function<bool()>& over) {
  constexpr milliseconds between_deadlines{1};
  constexpr int looks_awake = 100;  // polls before the first yield: as in GroupCore
  const bool once = until == Clock::time_point::min();
  if (state && state->agent()) until = std::min(until, state->deadline());
  auto last = Clock::now(), expired = last;
  for (int looks = 0;; ++looks) {
    const bool some = step();
    if (once || (state && state->done()) || (over && over())) return;
    if (some || looks < looks_awake) {
      if (some) looks = 0;
      if (some) last = Clock::now();
      if (!some) continue;
    }
    const auto now = Clock::now();
    if (now >= until) return;
    if (now - expired >= between_deadlines) {
      expired = now;
      expire_overdue();
    }
    if (now - last < transport_.awake()) {
      sched_yield();
    } else {  // a sleep: a message on either channel ends it
      const auto nap = std::min<Clock::duration>(until - now, microseconds{500});
      const auto at_most = std::chrono::ceil<microseconds>(nap);
      looks % 2 == 0 ? answers_.nap(at_most) : server_.nap(at_most);
    }
  }
}

void Agent::serve(Clock::time_point until, const std::function<bool()>& over) {
  if (!has_threads_) return await_without_threads(nullptr, until, over);
  constexpr milliseconds between_looks{1};
  for (auto now = Clock::now(); now < until && !(over && over()); now = Clock::now()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(until - now, between_looks));
  }
}

}  // namespace lockstep::rpc
