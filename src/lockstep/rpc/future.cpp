#include <lockstep/rpc/future.hpp>

#include <array>
#include <condition_variable>
#include <mutex>

#include <lockstep/rpc/agent.hpp>

namespace lockstep::rpc {
namespace {

/// Where threads sleep that wait for futures: few of all futures are ever slept for.
struct Place {
  std::mutex mutex;
  std::condition_variable changed;
};

Place& place_of(const FutureState* state) {
  static auto* places = new std::array<Place, 64>;  // futures may outlive main()
  return (*places)[reinterpret_cast<std::uintptr_t>(state) / 64 % places->size()];
}

}  // namespace

FutureState::~FutureState() {
  while (first_) {
    const std::unique_ptr<Continuation> one(first_);  // nobody will complete it
    first_ = one->next_;
  }
}

std::exception_ptr dropped_promise() noexcept {
  return std::make_exception_ptr(Error("the promise of this value was dropped without one"));
}

void FutureState::park(Clock::time_point until) {
  Place& place = place_of(this);
  parked_.fetch_add(1);
  {
    std::unique_lock lock(place.mutex);
    const auto over = [&] { return status_.load() != Status::pending || called_.exchange(false); };
    if (until == Clock::time_point::max()) {
      place.changed.wait(lock, over);
    } else {
      place.changed.wait_until(lock, until, over);
    }
  }
  parked_.fetch_sub(1);
}

void FutureState::wake() noexcept {
  if (parked_.load() == 0) return;
  Place& place = place_of(this);
  { const std::lock_guard lock(place.mutex); }
  place.changed.notify_all();
}

void FutureState::call() noexcept {
  called_.store(true);
  wake();
}

void FutureState::complete(Status status) noexcept {
  const IntrusivePtr<FutureState> alive(this);
  Continuation* list = nullptr;
  std::shared_ptr<void> kept;  // let go without the lock
  {
    const std::lock_guard lock(lock_);
    kept.swap(kept_);
    status_.store(status);
    list = std::exchange(first_, nullptr);
  }
  wake();
  // Newest first in the list; run in the order in which they were given.
  Continuation* in_order = nullptr;
  while (list) {
    Continuation* const next = list->next_;
    list->next_ = in_order;
    in_order = list;
    list = next;
  }
  while (in_order) {
    const std::unique_ptr<Continuation> one(in_order);
    in_order = one->next_;
    one->run(*this);
    if (agent_) agent_->watch_answers(-1);
  }
}

void FutureState::fail(std::exception_ptr failure) noexcept {
  failure_ = std::move(failure);
  complete(Status::failed);
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
    continuation->run(*this);
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
          "a future that no call completes has no value at its deadline: whoever holds its promise "
          "has not set one");
    }
  }
  if (failed()) std::rethrow_exception(failure_);
}

}  // namespace lockstep::rpc
