#pragma once
#include <functional>
#include <string>

namespace lockstep::reliability {

/// The outcome of `body` in a process of its own, with at most 1 GiB of additional memory, and 20
/// seconds.
struct ChildEnd {
  bool well = false;  ///< it returned, or threw an Error
  std::string
      sentence;  ///< the Error's message; empty if it returned. If not well: what happened instead
};
[[nodiscard]] ChildEnd in_child(const std::function<void()>& body);

}  // namespace lockstep::reliability
