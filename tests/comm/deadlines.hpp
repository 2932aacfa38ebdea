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

/// Tries a test of a deadline with this one and then with longer ones until it holds, because ranks
/// of a busy machine may miss a deadline by themselves: a real fault fails each time.
/// `attempt(deadline)` returns, or throws, a description of the deviation; "" if there is none.
/// `anywhere(wrong)` is true if it is true on any rank: all ranks retry together.
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

/// Runs `claim`, which returns a description of the deviation, on every rank of new groups that
/// have a deadline, of a second if possible. It holds for making the group too.
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
