#pragma once
#include <memory>

#include <lockstep/comm/threads_group.hpp>

#include "ranks.hpp"

namespace lockstep::test {

/// Runs `body` on the first two ranks of a group of `ranks`, or on two threads if it has one rank:
/// for files with numbers of two ranks.
inline void on_two_ranks(int ranks, const RankBody& body) {
  if (ranks == 1) {
    run_ranks_as_threads(2, [&](ProcessGroup& group) {
      body(std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group));
    });
    return;
  }
  on_ranks(ranks, [&](const auto& group) {
    const auto two = group->new_group({0, 1});
    if (two->rank() >= 0) body(two);
    two->close();
  });
}

}  // namespace lockstep::test
