// How a rank waits for answers, and what it does meanwhile.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/base/make_room.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/call_hook.hpp>
#include <lockstep/rpc/references.hpp>

namespace lockstep::rpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Without threads: calls that are executed within each other. Further ones wait until one is over.
constexpr int most_on_one_stack = 1000;

// Looks before the first yield: as in GroupCore.
constexpr int looks_awake = 100;

/// While it lives a call that was taken out of the table is not over.
class Over {
 public:
  explicit Over(CallTable& calls) : calls_(calls) {}
  ~Over() { calls_.over(); }
  Over(const Over&) = delete;
  Over& operator=(const Over&) = delete;

 private:
  CallTable& calls_;
};

/// At most until `until`, and never negative.
microseconds left(Clock::time_point until, microseconds at_most) {
  const auto now = Clock::now();
  if (until <= now) return microseconds{0};
  if (until - now >= at_most) return at_most;
  return std::chrono::ceil<microseconds>(until - now);
}

}  // namespace

bool Agent::Arriving::is_over() {
  while (!works.empty()) {
    if (!works.back().test()) return false;
    works.pop_back();
  }
  return true;
}

std::optional<Agent::Come> Agent::look_for_answer() {
  if (auto over = take_arrived()) return over;
  if (!answer_work_.test()) return std::nullopt;
  const Work done = answer_work_;
  if (!open_.load()) return std::nullopt;  // nobody's
  {
    const CallLabel label(serving_label);
    Work next = answers_->irecv_message(any_source);
    const std::lock_guard lock(answer_posted_lock_);
    answer_work_ = std::move(next);
  }
  if (!open_.load()) answer_work_.cancel();  // who closed it may have cancelled the one before
  if (done.cancelled()) return std::nullopt;
  return take_answer(done.message(), done.source());
}

std::optional<Agent::Come> Agent::take_answer(Tensor bytes, int from) {
  try {
    Come come;
    come.message = IncomingMessage(std::move(bytes), from, limits_);
    IncomingMessage& message = come.message;
    requests_out_->has_received(from, message.head().received);
    if (answers_in_.add(from) && calls_.open() > 0) send_notice(Kind::credit, from);
    if (message.head().kind != Kind::answer) throw MalformedMessage("it is not an answer");
    if (message.awaited().empty()) return taken(std::move(come.message));
    // Received though they may be too late: they would lie about.
    try {
      message.allocate_awaited();
    } catch (...) {
      if (const CallTable::Entry entry = calls_.take(message.head().id); entry.state) {
        fail(entry, std::current_exception());
      }
      throw;
    }
    Arriving& arriving = arriving_.emplace_back();
    for (const auto& awaited : message.awaited()) {
      arriving.works.push_back(
          answers_->irecv(message.tensors()[awaited.tensor], from, awaited.tag));
    }
    arriving.message = std::move(message);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    refused_.fetch_add(1);
    log(LogLevel::warning,
        fmt::format("{}: an answer of rank {} was dropped: {}", speaker(), from, error.what()));
  }
  return std::nullopt;
}

std::optional<Agent::Come> Agent::take_arrived() {
  const auto found = std::ranges::find_if(arriving_, [](Arriving& one) { return one.is_over(); });
  if (found == arriving_.end()) return std::nullopt;
  Come come = taken(std::move(found->message));
  arriving_.erase(found);
  return come;
}

Agent::Come Agent::taken(IncomingMessage&& message) {
  Come come;
  come.entry = calls_.take(message.head().id);
  come.message = std::move(message);
  if (come.entry.state) come.entry.state->set_coming();
  return come;
}

void Agent::complete(Come& come) noexcept {
  try {
    references_->take_over(come.message);
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("{}: {}", speaker(), error.what()));
  }
  if (come.entry.state) complete(come.entry, come.message);
}

void Agent::complete(const CallTable::Entry& entry, IncomingMessage& message) noexcept {
  FutureState& state = *entry.state;
  const Over over(calls_);
  if (!state.claim()) return;
  try {
    const Status status = message.head().status;
    if (status != Status::fine) {
      const auto text = message.payload();
      throw RemoteError({.rank = entry.to,
                         .worker = workers_[static_cast<std::size_t>(entry.to)].name,
                         .function = entry.name},
                        std::string(reinterpret_cast<const char*>(text.data()), text.size()));
    }
    if (CallHook* hook = call_hook()) hook->answered(message);
    state.receive(message);
  } catch (...) {
    state.fail(std::current_exception());
    return;
  }
  state.finish();
}

void Agent::fail(const CallTable::Entry& entry, std::exception_ptr why) noexcept {
  const Over over(calls_);
  if (entry.state->claim()) entry.state->fail(std::move(why));
}

void Agent::expire(const CallTable::Entry& entry, const std::string& callee) noexcept {
  fail(entry,
       std::make_exception_ptr(TimeoutError(fmt::format(
           "{}: {} on worker {} (rank {}) has not been answered after {:.1f} s: {}. A late answer "
           "will be dropped; if it is only slow, raise the timeout.",
           speaker(), entry.name, workers_[static_cast<std::size_t>(entry.to)].name, entry.to,
           seconds_since(entry.start), callee))));
}

// When it returns, `state` is complete: by who reads its answer, or has found it overdue just
// before, if it is in the table no more.
void Agent::expire(FutureState& state) noexcept {
  const CallTable::Entry entry = calls_.take(state.id());
  if (entry.state) expire(entry, state_of(entry.to));
  await_passively(state, Clock::time_point::max());
}

void Agent::expire_overdue() noexcept {
  std::map<int, std::string> callees;  // looked up once
  for (const CallTable::Entry& entry : calls_.take_overdue(Clock::now())) {
    std::string& callee = callees[entry.to];
    if (callee.empty()) callee = state_of(entry.to);
    expire(entry, callee);
  }
  expire_late_answers();
}

// Their callers have given up: they only have to be told that wait for an object.
void Agent::expire_late_answers() noexcept {
  for (const ReplyTo& reply : late_answers_.take_overdue(Clock::now())) {
    if (reply.kind == Kind::create) {
      refuse(reply, Status::threw,
             "the Future that the function returned had no value at the deadline of the call");
    }
    count_handled();
  }
}

std::int64_t Agent::fail_all(const std::exception_ptr& why) noexcept {
  std::int64_t failed = 0;
  for (;;) {
    const auto entries = calls_.take_overdue(Clock::time_point::max());
    if (entries.empty()) return failed;
    for (const CallTable::Entry& entry : entries) fail(entry, why);
    failed += static_cast<std::int64_t>(entries.size());
  }
}

// ---- who waits

void Agent::drive(FutureState& state, Clock::time_point until) {
  Agent* const agent = state.agent() ? state.agent() : current_or_null();
  if (!agent) {
    state.park(until);
  } else {
    agent->await(state, until);
  }
}

void Agent::await(FutureState& state, Clock::time_point until) {
  if (!has_threads_) {
    await_without_threads(&state, until, {});
    if (!state.done() && Clock::now() >= state.deadline() && state.agent()) expire(state);
    return;
  }
  if (until == Clock::time_point::min()) {
    receive_answers_once();
    if (!state.done() && state.agent() && Clock::now() >= state.deadline()) expire(state);
    return;
  }
  const TraceScope scope("rpc", "wait");
  const Crew::Blocked blocked(crew_);
  if (!state.agent()) return await_passively(state, until);
  const auto deadline = std::min(until, state.deadline());
  bool looks = true;
  while (!state.done()) {
    if (state.is_coming()) {
      await_passively(state, deadline);
    } else if (answers_lock_.try_lock()) {
      receive_answers(state, deadline);
    } else {
      follow(state, deadline, std::exchange(looks, false));
    }
    if (state.done()) return;
    const auto now = Clock::now();
    if (now >= state.deadline()) return expire(state);
    if (now >= until) return;
  }
}

void Agent::await_passively(FutureState& state, Clock::time_point until) {
  for (int look = 0; look < looks_awake && !state.done(); ++look) sched_yield();
  while (!state.done() && Clock::now() < until) state.park(until);
}

// What an answer leads to may run continuations, which may call: so the lock is left before that.
void Agent::receive_answers(FutureState& state, Clock::time_point until) {
  constexpr milliseconds slice{500};
  std::optional<Clock::time_point> in_vain_since;  // it looks for tensors
  try {
    while (!state.done() && !state.is_coming()) {
      if (arriving_.empty()) {
        in_vain_since.reset();
        if (!answer_work_.wait_for(push_unsent(left(until, slice)), awake_) &&
            Clock::now() >= until)
          break;
      }
      std::optional<Come> come = look_for_answer();
      if (!come) {
        const auto now = Clock::now();
        if (now >= until) break;
        if (!arriving_.empty()) {
          if (!in_vain_since) in_vain_since = now;
          make_room(now - *in_vain_since);
        }
        continue;
      }
      in_vain_since.reset();
      answers_lock_.unlock();
      complete(*come);
      if (state.done()) return promote_follower();
      if (!answers_lock_.try_lock()) return;
    }
    answers_lock_.unlock();
  } catch (const std::exception& error) {
    answers_lock_.unlock();
    lost(error);
  }
  promote_follower();
}

// Without threads too: but no requests, which are executed where somebody waits.
bool Agent::receive_answers_once() {
  bool some = false;
  while (answers_lock_.try_lock()) {
    std::optional<Come> come;
    try {
      come = look_for_answer();
    } catch (const std::exception& error) {
      answers_lock_.unlock();
      lost(error);
      return some;
    }
    answers_lock_.unlock();
    if (!come) break;
    complete(*come);
    some = true;
  }
  promote_follower();
  return some;
}

// The first of those who follow looks again soon, as who has the role may be held up by what an
// answer leads to. The others sleep until they are called: there may be thousands.
void Agent::follow(FutureState& state, Clock::time_point until, bool looks) {
  for (int look = 0; looks && look < looks_awake; ++look) {
    if (state.done()) return;
    if (answers_lock_.try_lock()) return receive_answers(state, until);
    sched_yield();
  }
  constexpr milliseconds soon{10};
  std::unique_lock lock(followers_mutex_);
  const auto mine = followers_.emplace(followers_.end(), &state);
  for (;;) {
    const bool is_first = mine == followers_.begin();
    lock.unlock();
    const bool is_free = answers_lock_.try_lock();  // given up since the last look
    if (is_free) answers_lock_.unlock();
    if (!is_free) {
      state.park(is_first ? std::min(until, Clock::now() + soon) : until, &mine->called);
    }
    lock.lock();
    if (is_free || state.done() || state.is_coming() || Clock::now() >= until) break;
  }
  const bool was_first = mine == followers_.begin();
  followers_.erase(mine);
  if (was_first && !followers_.empty()) followers_.front().call();
}

void Agent::promote_follower() noexcept {
  const std::lock_guard lock(followers_mutex_);
  if (!followers_.empty()) followers_.front().call();
}

void Agent::Follower::call() noexcept {
  called.store(true);
  state->wake();
}

// ---- nobody waits, but something is to happen

void Agent::watch_answers(int more) noexcept {
  const int before = watched_.fetch_add(more);
  if (!has_threads_ || more < 0 || before > 0) return;
  try {
    const std::lock_guard lock(answerer_mutex_);
    if (!answerer_.joinable() && !answerer_stops_) {
      answerer_ = std::thread([this] { run_answerer(); });
    }
    answerer_called_.notify_one();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): who waits will receive it
  }
}

void Agent::run_answerer() {
  moved_in();
  name_thread("rpc answers");
  constexpr milliseconds slice{20}, others_turn{1};
  std::unique_lock lock(answerer_mutex_);
  while (!answerer_stops_) {
    if (watched_.load() <= 0) {
      answerer_called_.wait(lock);
      continue;
    }
    lock.unlock();
    bool waits = false;
    if (answers_lock_.try_lock()) {
      bool came = false;
      try {
        came = !arriving_.empty() || answer_work_.wait_for(slice);
      } catch (const std::exception& error) {
        answers_lock_.unlock();
        lost(error);
        lock.lock();
        answerer_called_.wait(lock, [this] { return answerer_stops_; });
        return;
      }
      answers_lock_.unlock();
      waits = !(came && receive_answers_once());
    } else {
      waits = true;
    }
    expire_overdue();
    promote_follower();
    lock.lock();
    if (waits) answerer_called_.wait_for(lock, others_turn);
  }
}

// ---- without threads

bool Agent::step() {
  bool some = false;
  try {
    static_cast<void>(push_unsent(microseconds{0}));
    if (auto come = look_for_answer()) {
      complete(*come);
      some = true;
    }
    if (executing_ < most_on_one_stack && request_work_.test()) {
      if (Request* request = take_request()) execute(request);
      some = true;
    }
  } catch (const CommError& error) {
    lost(error);
    throw;
  }
  Request* const request = executing_ < most_on_one_stack ? local_first_ : nullptr;
  if (request) {
    local_first_ = request->next;
    if (!local_first_) local_last_ = nullptr;
    execute(request);
    some = true;
  }
  return some;
}

void Agent::await_without_threads(const FutureState* state, Clock::time_point until,
                                  const std::function<bool()>& over) {
  constexpr milliseconds between_deadlines{1};
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
    if (now - last < awake_) {
      sched_yield();
    } else {  // a nap; messages of both groups end it, those of one at once
      static_cast<void>((looks % 2 == 0 ? answer_work_ : request_work_)
                            .wait_for(left(until, microseconds{500}), awake_));
    }
  }
}

void Agent::serve(Clock::time_point until, const std::function<bool()>& over) {
  if (!has_threads_) return await_without_threads(nullptr, until, over);
  constexpr milliseconds between_looks{1};
  while (Clock::now() < until && !(over && over())) {
    std::this_thread::sleep_for(left(until, between_looks));
  }
}

}  // namespace lockstep::rpc
