#include <lockstep/rpc/future.hpp>

#include <mutex>

#include <lockstep/base/futex.hpp>
#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/call_scope.hpp>

namespace lockstep::rpc {
FutureState::~FutureState() {
  while (next_continuation()) {  // no thread will complete them
  }
}

std::exception_ptr dropped_promise() noexcept {
  return std::make_exception_ptr(Error("the Promise of this Future was destroyed without a value"));
}

void FutureState::park(Clock::time_point until, std::atomic<bool>* called) {
  using std::chrono::microseconds;
  constexpr microseconds longest = std::chrono::hours(1);
  parked_.fetch_add(1);
  for (;;) {
    const std::uint32_t seen = wakes_.load();
    if (status_.load() != Status::pending || (called && called->exchange(false))) break;
    const auto now = Clock::now();
    if (now >= until) break;  // `until` may be the smallest time point
    const bool is_far = until - now > longest;
    futex_wait(wakes_, seen, is_far ? longest : std::chrono::ceil<microseconds>(until - now));
  }
  parked_.fetch_sub(1);
}

void FutureState::wake() noexcept {
  if (parked_.load() == 0) return;
  wakes_.fetch_add(1);
  futex_wake_all(wakes_);
}

void FutureState::settle(Status status) noexcept {
  std::shared_ptr<void> kept;  // destroyed outside the lock
  {
    const std::lock_guard lock(lock_);
    kept.swap(kept_);
    Continuation* newest_first = std::exchange(first_, nullptr);
    while (newest_first) {
      Continuation* const next = std::exchange(newest_first->next_, first_);
      first_ = std::exchange(newest_first, next);
    }
    status_.store(status);
  }
  wake();
}

std::unique_ptr<Continuation> FutureState::next_continuation() noexcept {
  std::unique_ptr<Continuation> next(first_);
  if (next) first_ = next->next_;
  return next;
}

// Called by the thread that settled the future. Futures settled by a continuation come next, before
// the remaining continuations, as if nested; but their place is the heap, not the stack.
void FutureState::run_continuations() noexcept {
  if (!first_) return;
  const InCallScope outside(CallScope{});  // not part of the call that this thread may be executing
  IntrusivePtr<FutureState> current(this);
  while (current) {
    const std::unique_ptr<Continuation> one = current->next_continuation();
    if (!one) {
      current = IntrusivePtr<FutureState>(std::move(current->resumed_));
      continue;
    }
    IntrusivePtr<FutureState> settled = one->run(*current);
    if (current->agent_) current->agent_->watch_answers(-1);
    if (!settled) continue;
    settled->resumed_ = IntrusivePtr<FutureState>(current->first_ ? std::move(current)
                                                                  : std::move(current->resumed_));
    current = std::move(settled);
  }
}

void FutureState::finish() noexcept {
  const IntrusivePtr<FutureState> alive(this);
  settle();
  run_continuations();
}

void FutureState::fail(std::exception_ptr failure) noexcept {
  const IntrusivePtr<FutureState> alive(this);
  settle_failed(std::move(failure));
  run_continuations();
}

void FutureState::settle_failed(std::exception_ptr failure) noexcept {
  failure_ = std::move(failure);
  settle(Status::failed);
}

void FutureState::then(std::unique_ptr<Continuation> continuation) {
  {
    const std::lock_guard lock(lock_);
    if (status_.load() == Status::pending) {
      continuation->next_ = first_;
      first_ = continuation.release();
    }
  }
  if (continuation) {
    const InCallScope outside(CallScope{});
    if (const auto settled = continuation->run(*this)) settled->run_continuations();
  } else if (agent_) {
    agent_->watch_answers(1);
  }
}

void FutureState::keep(std::shared_ptr<void> what) {
  const std::lock_guard lock(lock_);
  if (status_.load() == Status::pending) kept_.swap(what);
}

bool FutureState::test() { return done() || wait_until(Clock::time_point::min()); }

bool FutureState::wait_until(Clock::time_point until) {
  if (!done()) Agent::drive(*this, until);
  return done();
}

void FutureState::wait() {
  if (!done()) {
    Clock::time_point until = deadline_;
    if (until == Clock::time_point::max() && !ends_) until = Agent::default_deadline();
    if (!wait_until(until) && !agent_) {
      throw TimeoutError(
          "a Future without a call has no value at its deadline: its Promise has not been "
          "completed");
    }
  }
  if (failed()) std::rethrow_exception(failure_);
}

}  // namespace lockstep::rpc
