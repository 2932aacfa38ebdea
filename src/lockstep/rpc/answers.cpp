#include <lockstep/rpc/answers.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/base/make_room.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/rpc/call_hook.hpp>

namespace lockstep::rpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Polls before the first yield: as in GroupCore.
constexpr int looks_awake = 100;

/// A call that was taken out of the table counts as open while this is alive.
class CallEnd {
 public:
  explicit CallEnd(CallTable& calls) : calls_(calls) {}
  ~CallEnd() { calls_.over(); }
  CallEnd(const CallEnd&) = delete;
  CallEnd& operator=(const CallEnd&) = delete;

 private:
  CallTable& calls_;
};

/// The time left until `until`: not negative, and at most `at_most`.
microseconds left(Clock::time_point until, microseconds at_most) {
  const auto now = Clock::now();
  if (until <= now) return microseconds{0};
  if (until - now >= at_most) return at_most;
  return std::chrono::ceil<microseconds>(until - now);
}

}  // namespace

Answers::Answers(const WorkerTable& workers, Transport& transport, References& references,
                 Availability& availability, std::function<void()> begin_thread)
    : workers_(workers),
      transport_(transport),
      references_(references),
      availability_(availability),
      work_(transport.receive_next(Channel::answers)),
      begin_thread_(std::move(begin_thread)) {}

void Answers::take(std::uint64_t id, IncomingMessage& message) noexcept {
  const CallTable::Entry entry = calls_.take(id);
  if (entry.state) complete(entry, message);
}

// ---- incoming answers

bool Answers::Arriving::is_over() {
  while (!works.empty()) {
    if (!works.back().test()) return false;
    works.pop_back();
  }
  return true;
}

std::optional<Answers::Received> Answers::look() {
  if (auto over = take_arrived()) return over;
  if (!work_.test()) return std::nullopt;
  const Work done = work_;
  if (!availability_.is_open()) return std::nullopt;  // closed: the answer has no owner
  {
    Work next = transport_.receive_next(Channel::answers);
    const std::lock_guard lock(posted_);
    work_ = std::move(next);
  }
  // the closing thread may have cancelled the previous receive
  if (!availability_.is_open()) work_.cancel();
  if (done.cancelled()) return std::nullopt;
  return take_message(done.message(), done.source());
}

std::optional<Answers::Received> Answers::take_message(Tensor bytes, int from) {
  std::optional<std::uint64_t> call;  // whose tensors are to be received
  try {
    IncomingMessage message(std::move(bytes), from, transport_.limits());
    transport_.on_received(Channel::answers, from, message.head(), calls_.open() > 0);
    if (message.head().kind != Kind::answer) throw MalformedMessage("it is not an answer");
    if (message.awaited().empty()) return taken(std::move(message));
    call = message.head().id;
    // Received even if the call has expired: the messages would stay in MPI's queues.
    std::vector<Work> works = transport_.receive_tensors(Channel::answers, message);
    arriving_.push_back({.message = std::move(message), .works = std::move(works)});
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    transport_.count().refused.fetch_add(1);
    log(LogLevel::warning, fmt::format("{}: an answer from rank {} was dropped: {}",
                                       workers_.own_name(), from, error.what()));
    if (call) {
      return Received{
          .entry = take_call(*call), .message = {}, .failure = std::current_exception()};
    }
  }
  return std::nullopt;
}

std::optional<Answers::Received> Answers::take_arrived() {
  const auto found = std::ranges::find_if(arriving_, [](Arriving& one) { return one.is_over(); });
  if (found == arriving_.end()) return std::nullopt;
  Received received = taken(std::move(found->message));
  arriving_.erase(found);
  return received;
}

Answers::Received Answers::taken(IncomingMessage&& message) {
  CallTable::Entry entry = take_call(message.head().id);
  return {.entry = std::move(entry), .message = std::move(message), .failure = {}};
}

CallTable::Entry Answers::take_call(std::uint64_t id) {
  CallTable::Entry entry = calls_.take(id);
  if (entry.state) entry.state->set_coming();
  return entry;
}

void Answers::complete(Received& received) noexcept {
  if (received.failure) {
    if (received.entry.state) fail(received.entry, received.failure);
    return;
  }
  try {
    references_.take_over(received.message);
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("{}: {}", workers_.own_name(), error.what()));
  }
  if (received.entry.state) complete(received.entry, received.message);
}

void Answers::complete(const CallTable::Entry& entry, IncomingMessage& message) noexcept {
  FutureState& state = *entry.state;
  const CallEnd end(calls_);
  if (!state.claim()) return;
  try {
    const Status status = message.head().status;
    if (status != Status::fine) {
      const auto text = message.payload();
      throw RemoteError(
          {.rank = entry.to, .worker = workers_.name(entry.to), .function = entry.name},
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

void Answers::fail(const CallTable::Entry& entry, std::exception_ptr why) noexcept {
  const CallEnd end(calls_);
  if (entry.state->claim()) entry.state->fail(std::move(why));
}

void Answers::expire(const CallTable::Entry& entry, const std::string& callee) noexcept {
  fail(entry,
       std::make_exception_ptr(TimeoutError(fmt::format(
           "{}: {} on worker {} (rank {}) has not been answered after {:.1f} s: {}. A late answer "
           "will be dropped; If it is only slow, raise the timeout.",
           workers_.own_name(), entry.name, workers_.name(entry.to), entry.to,
           seconds_since(entry.start), callee))));
}

// `state` is complete on return. If the call is no longer in the table, another thread completes
// it: the reader of the answer, or one that has just found it overdue.
void Answers::expire(FutureState& state) noexcept {
  const CallTable::Entry entry = calls_.take(state.id());
  if (entry.state) expire(entry, workers_.state_of(entry.to));
  await_passively(state, Clock::time_point::max());
}

void Answers::expire_overdue() noexcept {
  std::map<int, std::string> callees;  // each looked up once
  for (const CallTable::Entry& entry : calls_.take_overdue(Clock::now())) {
    std::string& callee = callees[entry.to];
    if (callee.empty()) callee = workers_.state_of(entry.to);
    expire(entry, callee);
  }
}

void Answers::lost(const std::exception& error) noexcept {
  availability_.close(error.what());
  fail_all(std::make_exception_ptr(CommError(error.what())));
}

std::int64_t Answers::fail_all(const std::exception_ptr& why) noexcept {
  std::int64_t failed = 0;
  for (;;) {
    const auto entries = calls_.take_overdue(Clock::time_point::max());
    if (entries.empty()) return failed;
    for (const CallTable::Entry& entry : entries) fail(entry, why);
    failed += static_cast<std::int64_t>(entries.size());
  }
}

// ---- waiting

void Answers::await(FutureState& state, Clock::time_point until) {
  bool looks = true;
  do {  // at least once: the answer may be here after the deadline
    if (state.is_coming()) {
      await_passively(state, until);
    } else if (role_.try_lock()) {
      receive_until(state, until);
    } else {
      follow(state, until, std::exchange(looks, false));
    }
  } while (!state.done() && Clock::now() < until);
}

void Answers::await_passively(FutureState& state, Clock::time_point until) {
  for (int look = 0; look < looks_awake && !state.done(); ++look) sched_yield();
  while (!state.done() && Clock::now() < until) state.park(until);
}

void Answers::await_other(FutureState& state, Clock::time_point until) {
  constexpr milliseconds slice{1}, between_looks{1000};
  for (int look = 0; look < looks_awake && !state.done(); ++look) sched_yield();
  for (auto now = Clock::now(); !state.done() && now < until; now = Clock::now()) {
    const bool receives = lacks_thread_.load();
    if (receives) {
      static_cast<void>(receive());
      expire_overdue();
    }
    state.park(std::min<Clock::time_point>(until, now + (receives ? slice : between_looks)));
  }
}

// The role is released before an answer is completed: that may run continuations, which may call.
void Answers::receive_until(FutureState& state, Clock::time_point until) {
  constexpr milliseconds slice{500};
  // since when tensors have been polled without success
  std::optional<Clock::time_point> in_vain_since;
  try {
    while (!state.done() && !state.is_coming()) {
      if (arriving_.empty()) {
        in_vain_since.reset();
        if (!MessagePort::wait_for(work_, transport_.push_unsent(left(until, slice)),
                                   transport_.awake()) &&
            Clock::now() >= until)
          break;
      }
      std::optional<Received> received = look();
      if (!received) {
        const auto now = Clock::now();
        if (now >= until) break;
        if (!arriving_.empty()) {
          if (!in_vain_since) in_vain_since = now;
          make_room(now - *in_vain_since);
        }
        continue;
      }
      in_vain_since.reset();
      role_.unlock();
      complete(*received);
      if (state.done()) return promote_follower();
      if (!role_.try_lock()) return;
    }
    role_.unlock();
  } catch (const std::exception& error) {
    role_.unlock();
    lost(error);
  }
  promote_follower();
}

// Also used without threads, but receives no requests: those are executed only in a wait.
bool Answers::receive() {
  bool some = false;
  while (role_.try_lock()) {
    std::optional<Received> received;
    try {
      received = look();
    } catch (const std::exception& error) {
      role_.unlock();
      lost(error);
      return some;
    }
    role_.unlock();
    if (!received) break;
    complete(*received);
    some = true;
  }
  promote_follower();
  return some;
}

bool Answers::receive_one() {
  std::optional<Received> received = look();
  if (received) complete(*received);
  return received.has_value();
}

void Answers::nap(microseconds at_most) {
  static_cast<void>(MessagePort::wait_for(work_, at_most, transport_.awake()));
}

// The first follower polls again soon, because the thread with the role may be busy with
// continuations. The others sleep until they are called: there may be thousands.
void Answers::follow(FutureState& state, Clock::time_point until, bool looks) {
  for (int look = 0; looks && look < looks_awake; ++look) {
    if (state.done()) return;
    if (role_.try_lock()) return receive_until(state, until);
    sched_yield();
  }
  constexpr milliseconds soon{10};
  std::unique_lock lock(followers_mutex_);
  const auto mine = followers_.emplace(followers_.end(), &state);
  for (;;) {
    const bool is_first = mine == followers_.begin();
    lock.unlock();
    const bool is_free = role_.try_lock();  // released since the last poll
    if (is_free) role_.unlock();
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

void Answers::promote_follower() noexcept {
  const std::lock_guard lock(followers_mutex_);
  if (!followers_.empty()) followers_.front().call();
}

void Answers::Follower::call() noexcept {
  called.store(true);
  state->wake();
}

// ---- progress without a waiting thread

void Answers::watch(int more) noexcept {
  const int before = watched_.fetch_add(more);
  if (more < 0 || before > 0) return;
  try {
    const std::lock_guard lock(thread_mutex_);
    if (!thread_.joinable() && !thread_stops_) {
      thread_ = std::thread([this] { run_thread(); });
    }
    thread_called_.notify_one();
    lacks_thread_.store(false);
  } catch (const std::exception&) {
    lacks_thread_.store(true);
  }
}

void Answers::run_thread() {
  begin_thread_();
  name_thread("rpc answers");
  constexpr milliseconds slice{20}, others_turn{1};
  std::unique_lock lock(thread_mutex_);
  while (!thread_stops_) {
    if (watched_.load() <= 0) {
      thread_called_.wait(lock);
      continue;
    }
    lock.unlock();
    bool waits = false;
    if (role_.try_lock()) {
      bool came = false;
      try {
        came = !arriving_.empty() || work_.wait_for(slice);
      } catch (const std::exception& error) {
        role_.unlock();
        lost(error);
        lock.lock();
        thread_called_.wait(lock, [this] { return thread_stops_; });
        return;
      }
      role_.unlock();
      waits = !(came && receive());
    } else {
      waits = true;
    }
    expire_overdue();
    promote_follower();
    lock.lock();
    if (waits) thread_called_.wait_for(lock, others_turn);
  }
}

void Answers::stop() noexcept {
  {
    const std::lock_guard lock(thread_mutex_);
    thread_stops_ = true;
  }
  thread_called_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Work Answers::cancel() noexcept {
  if (const std::unique_lock role(role_, std::try_to_lock); role) {
    for (Arriving& one : arriving_) {  // tensors that will not arrive any more
      for (Work& work : one.works) work.cancel();
    }
    arriving_.clear();
  }
  Work last;
  {
    const std::lock_guard lock(posted_);
    last = work_;
  }
  last.cancel();
  return last;
}

}  // namespace lockstep::rpc
