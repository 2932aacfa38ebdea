#pragma once
#include <chrono>
#include <functional>
#include <memory>

namespace lockstep {

/// A call that may never return, on a thread of its own. Whoever stops waiting leaves it behind, so
/// the call owns what it uses.
class BackgroundCall {
 public:
  /// Throws std::system_error where there can be no thread.
  explicit BackgroundCall(std::function<void()> call);

  /// Whether it has returned by then.
  [[nodiscard]] bool returns_within(std::chrono::milliseconds patience) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
