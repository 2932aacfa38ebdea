#pragma once
#include <cstdint>
#include <utility>

#include <lockstep/base/clock.hpp>

namespace lockstep::rpc {

/// The limits on calls that a thread makes: inside a function that runs for another worker they
/// have the deadline of the call that they serve, and one more level of nesting.
struct CallScope {
  Clock::time_point deadline = Clock::time_point::max();
  std::uint32_t depth = 0;  ///< of the call that is executed; 0: none is

  [[nodiscard]] static CallScope& of_thread() noexcept {
    static thread_local CallScope scope;
    return scope;
  }
};

/// Sets the thread's for as long as it lives.
class InCallScope {
 public:
  explicit InCallScope(const CallScope& scope)
      : before_(std::exchange(CallScope::of_thread(), scope)) {}
  ~InCallScope() { CallScope::of_thread() = before_; }
  InCallScope(const InCallScope&) = delete;
  InCallScope& operator=(const InCallScope&) = delete;

 private:
  CallScope before_;
};

}  // namespace lockstep::rpc
