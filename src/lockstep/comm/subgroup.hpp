#pragma once
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Throws InputError, on every rank, unless all of them pass the same `ranks`. Collective.
void expect_same_members(ProcessGroup& group, std::span<const int> ranks);

/// Throws InputError unless `ranks` are different ranks of a group of `size`, one at least.
void expect_members(std::span<const int> ranks, int size);

/// The ranks of `group` that passed this rank's colour to split(), ordered by key, then by rank;
/// empty if it is negative. Collective.
[[nodiscard]] std::vector<int> members_of_split(ProcessGroup& group, int colour, int key);

}  // namespace lockstep
