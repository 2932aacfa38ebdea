#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/base/spin_lock.hpp>
#include <lockstep/rpc/error.hpp>

namespace lockstep::rpc {

class Agent;
class IncomingMessage;
class FutureState;

/// A continuation to run once a future is complete.
class Continuation {
 public:
  virtual ~Continuation() = default;
  /// Returns the future that it has completed, if any: that one's continuations run after it, not
  /// within it, so chains may be long.
  virtual IntrusivePtr<FutureState> run(FutureState& state) noexcept = 0;

 private:
  friend class FutureState;
  Continuation* next_ = nullptr;
};

/// The state that a Future, its Promise and the agent share. Thread-safe.
class FutureState : public RefCounted<FutureState> {
 public:
  [[nodiscard]] bool done() const noexcept {
    return status_.load(std::memory_order_acquire) != Status::pending;
  }
  [[nodiscard]] bool failed() const noexcept {
    return status_.load(std::memory_order_acquire) == Status::failed;
  }
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// Blocks until complete; throws the error of a failed future, TimeoutError at the deadline.
  void wait();
  /// True once complete. Meanwhile moves calls on.
  [[nodiscard]] bool wait_until(Clock::time_point until);
  [[nodiscard]] bool test();

  /// Runs it once complete: at once if it is. On the thread that completes.
  void then(std::unique_ptr<Continuation> continuation);

  /// Claims the right to complete it: true for exactly one of several callers.
  [[nodiscard]] bool claim() noexcept { return !claimed_.exchange(true); }
  /// Only for the caller that has claimed it:
  void fail(std::exception_ptr failure) noexcept;
  void finish() noexcept;  ///< its value stands
  /// The same for a Continuation, which returns it.
  void settle_failed(std::exception_ptr failure) noexcept;
  void settle() noexcept { settle(Status::ready); }
  /// Reads the value from an answer. Throws.
  virtual void receive(IncomingMessage& message) = 0;

  /// Holds on to that until complete.
  void keep(std::shared_ptr<void> what);

  /// Until when a waiter waits; without one the agent's Options::timeout from the wait on.
  void set_deadline(Clock::time_point deadline) noexcept { deadline_ = deadline; }
  [[nodiscard]] Clock::time_point deadline() const noexcept { return deadline_; }
  /// A future that `before` completes: if that is a call, or follows one, it always ends, so a wait
  /// here has no deadline.
  void set_follows(const FutureState& before) noexcept {
    ends_ = before.ends_ || before.agent_;
    if (!ends_) deadline_ = before.deadline_;
  }

  /// Of calls, which an answer completes.
  void set_call(Agent* agent, std::uint64_t id) noexcept {
    agent_ = agent;
    id_ = id;
  }
  /// Another thread is about to complete it: waiting threads need not receive answers for that.
  void set_coming() noexcept { coming_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_coming() const noexcept { return coming_.load(std::memory_order_acquire); }
  [[nodiscard]] Agent* agent() const noexcept { return agent_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  /// Sleeps until complete, or `until`, or until `called` is set, which it takes back.
  void park(Clock::time_point until, std::atomic<bool>* called = nullptr);
  /// Each park() looks again.
  void wake() noexcept;

 protected:
  FutureState() = default;
  virtual ~FutureState();
  friend class RefCounted<FutureState>;
  virtual void release() noexcept = 0;

 private:
  enum class Status : std::uint8_t { pending, ready, failed };
  void settle(Status status) noexcept;
  void run_continuations() noexcept;
  [[nodiscard]] std::unique_ptr<Continuation> next_continuation() noexcept;

  std::atomic<Status> status_ = Status::pending;
  std::atomic<bool> claimed_ = false;
  std::atomic<bool> coming_ = false;
  std::atomic<int> parked_ = 0;
  std::atomic<std::uint32_t> wakes_ = 0;
  SpinLock lock_;                      // guards the list and kept_, until it is settled
  Continuation* first_ = nullptr;      // newest first; once settled, in the order of then()
  IntrusivePtr<FutureState> resumed_;  // a future whose continuations run after this one's
  std::shared_ptr<void> kept_;
  std::exception_ptr failure_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool ends_ = false;  // set_follows()
  Agent* agent_ = nullptr;
  std::uint64_t id_ = 0;
};

/// The error of a future whose promise was destroyed.
[[nodiscard]] std::exception_ptr dropped_promise() noexcept;

namespace detail {
struct Unit {};
template <class T>
using Held = std::conditional_t<std::is_void_v<T>, Unit, T>;
}  // namespace detail

/// With the value.
template <class T>
class ValueState : public FutureState {
 public:
  std::optional<detail::Held<T>> value;

  void receive(IncomingMessage&) override {}
  static IntrusivePtr<ValueState> make() {
    return IntrusivePtr<ValueState>(ObjectPool<ValueState>::instance().make());
  }

 protected:
  ValueState() = default;
  ~ValueState() override = default;
  friend class ObjectPool<ValueState>;
  void release() noexcept override { ObjectPool<ValueState>::instance().recycle(this); }
};

/// A value that arrives later: the result of a call. A cheap handle; copies share the value.
template <class T>
class Future {
 public:
  Future() = default;
  explicit Future(IntrusivePtr<ValueState<T>> state) : state_(std::move(state)) {}

  [[nodiscard]] bool valid() const noexcept { return static_cast<bool>(state_); }

  /// Blocks until the value is there, and meanwhile makes progress on this rank's calls. Throws
  /// RemoteError if the function did; TimeoutError at the call's deadline, after which a late
  /// answer is dropped; CommError if the group failed; Error after shutdown(). A future from then()
  /// has no deadline: it fails if its function throws, or if the future before it failed.
  auto wait() const& -> std::conditional_t<std::is_void_v<T>, void, const detail::Held<T>&> {
    held().wait();
    if constexpr (!std::is_void_v<T>) return *state_->value;
  }
  /// The same of a temporary: the value is moved out.
  auto wait() && -> T {
    held().wait();
    if constexpr (!std::is_void_v<T>) return std::move(*state_->value);
  }

  /// True once wait() would not block. Also drives calls.
  [[nodiscard]] bool test() const { return held().test(); }
  /// Waits, but not for longer than that; true once wait() would not block.
  template <class Rep, class Period>
  [[nodiscard]] bool wait_for(std::chrono::duration<Rep, Period> at_most) const {
    return held().wait_until(deadline_in(at_most));
  }

  /// Runs `f(future)` with this future, complete, once it is, on the thread that completes it: at
  /// once if it is already. The result or the exception of f is in the returned future. `f` must
  /// not block for long: it may hold up other answers.
  template <class F>
  auto then(F f) const -> Future<std::invoke_result_t<F, const Future&>>;

  [[nodiscard]] const IntrusivePtr<ValueState<T>>& state() const noexcept { return state_; }

 private:
  [[nodiscard]] ValueState<T>& held() const {
    if (!state_)
      throw Error("a default-constructed Future was used: it has neither a call nor a Promise");
    return *state_;
  }

  IntrusivePtr<ValueState<T>> state_;
};

/// Completes a future: for functions that answer after they return. Copies are one promise; when
/// the last one goes without having been completed, the future fails with Error.
template <class T>
class Promise {
 public:
  Promise() : owner_(std::make_shared<Owner>()) {}
  [[nodiscard]] Future<T> future() const { return Future<T>(owner_->state); }

  /// Throws Error if it has been completed before. If constructing a T from `value` throws,
  /// set_value rethrows it and the future fails with it.
  template <class V>
  requires(!std::is_void_v<T> && std::is_convertible_v<V, T>) void set_value(V&& value) const {
    ValueState<T>& state = first();
    try {
      state.value.emplace(std::forward<V>(value));
    } catch (...) {
      state.fail(std::current_exception());
      throw;
    }
    state.finish();
  }
  void set_value() const requires std::is_void_v<T> {
    ValueState<T>& state = first();
    state.value.emplace();
    state.finish();
  }
  /// Throws InputError for a null pointer.
  void set_exception(std::exception_ptr failure) const {
    if (!failure) throw InputError("Promise::set_exception was given a null pointer");
    first().fail(std::move(failure));
  }

 private:
  struct Owner {
    IntrusivePtr<ValueState<T>> state = ValueState<T>::make();
    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      if (state->claim()) state->fail(dropped_promise());
    }
  };
  [[nodiscard]] ValueState<T>& first() const {
    if (!owner_->state->claim()) {
      throw Error("a Promise can be completed only once, and it already is");
    }
    return *owner_->state;
  }
  std::shared_ptr<Owner> owner_;
};

namespace detail {

template <class T, class U, class F>
class Then final : public Continuation {
 public:
  Then(F f, IntrusivePtr<ValueState<U>> result) : f_(std::move(f)), result_(std::move(result)) {}
  IntrusivePtr<FutureState> run(FutureState& state) noexcept override {
    static_cast<void>(result_->claim());
    try {
      const Future<T> done(IntrusivePtr<ValueState<T>>(static_cast<ValueState<T>*>(&state)));
      if constexpr (std::is_void_v<U>) {
        f_(done);
        result_->value.emplace();
      } else {
        result_->value.emplace(f_(done));
      }
      result_->settle();
    } catch (...) {
      result_->settle_failed(std::current_exception());
    }
    return result_;
  }

 private:
  F f_;
  IntrusivePtr<ValueState<U>> result_;
};

}  // namespace detail

template <class T>
template <class F>
auto Future<T>::then(F f) const -> Future<std::invoke_result_t<F, const Future&>> {
  using U = std::invoke_result_t<F, const Future&>;
  ValueState<T>& state = held();
  auto result = ValueState<U>::make();
  result->set_follows(state);
  state.then(std::make_unique<detail::Then<T, U, F>>(std::move(f), result));
  return Future<U>(std::move(result));
}

/// The values of all of them, in their order. Throws the error of the first failed one, without
/// waiting for those that follow it.
template <class T>
auto wait_all(const std::vector<Future<T>>& futures) {
  if constexpr (std::is_void_v<T>) {
    for (const Future<T>& future : futures) future.wait();
  } else {
    std::vector<T> values;
    values.reserve(futures.size());
    for (const Future<T>& future : futures) values.push_back(future.wait());
    return values;
  }
}

}  // namespace lockstep::rpc
