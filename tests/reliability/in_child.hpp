#pragma once
#include <functional>
#include <string>

namespace lockstep::reliability {

/// How `body` ended in a process of its own, which may have 1 GiB of memory more than this one, and
/// 20 seconds.
struct ChildEnd {
  bool well = false;     ///< it returned, or threw an Error
  std::string sentence;  ///< of the Error; empty if it returned. If not well: what happened instead
};
[[nodiscard]] ChildEnd in_child(const std::function<void()>& body);

}  // namespace lockstep::reliability
