#pragma once
#include <functional>

#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Runs `body` on `ranks` threads of this process, each with its own ProcessGroup of that size, and
/// joins them. An exception on one rank poisons the group: the others' waits throw CommError at
/// once. Afterwards the first failure (not its echoes on other ranks) is rethrown, its message
/// naming the rank.
void run_ranks_as_threads(int ranks, const std::function<void(ProcessGroup&)>& body,
                          const GroupOptions& options = {});

}  // namespace lockstep
