#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep::test {

/// Tries a claim about a deadline with this one and then, as ranks of a busy machine may miss it by
/// themselves, with longer ones until it holds: what a fault does, it does each time.
/// `attempt(deadline)` gives what is not as claimed, or throws it; "" if all is. `anywhere(wrong)`
/// tells whether it is so on any rank: all try again together.
template <class Attempt, class Anywhere>
void hold_at_deadlines(std::chrono::milliseconds deadline, const Attempt& attempt,
                       const Anywhere& anywhere) {
  for (bool again = true; again; deadline *= 2) {
    std::string wrong;
    try {
      wrong = attempt(deadline);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    again = anywhere(!wrong.empty());
    if (again && deadline >= std::chrono::seconds(8)) {
      if (!wrong.empty()) ADD_FAILURE() << wrong;
      return;
    }
  }
}

/// Of ranks that are threads of this process.
inline bool here(bool wrong) { return wrong; }

using ClaimAtDeadline =
    std::function<std::string(ProcessGroup&, std::chrono::milliseconds deadline)>;

/// Runs `claim`, which gives what is not as claimed, on every rank of new groups that have a
/// deadline, of a second if it can be. It holds for making the group too.
inline void on_groups_with_deadline(const ClaimAtDeadline& claim) {
  const auto attempt = [&](std::chrono::milliseconds deadline) {
    std::mutex mutex;
    std::string wrong;
    on_every_new_group(
        [&](ProcessGroup& group) {
          const std::string found = claim(group, deadline);
          const std::lock_guard lock(mutex);
          if (wrong.empty()) wrong = found;
        },
        {.timeout = deadline, .progress = asked_for_progress()});
    return wrong;
  };
  const auto anywhere = [](bool wrong) {
    std::atomic<bool> any = false;
    on_every_group([&](ProcessGroup& group) {
      if (all_reduce_scalar(group, wrong ? 1.0 : 0.0, ReduceOp::max) > 0.0) any = true;
    });
    return any.load();
  };
  hold_at_deadlines(std::chrono::seconds(1), attempt, anywhere);
}

}  // namespace lockstep::test
