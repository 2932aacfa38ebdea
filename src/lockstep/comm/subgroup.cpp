#include <lockstep/comm/subgroup.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {
namespace {

struct SplitArguments {
  int colour, key;
  static auto fields(auto& self) { return std::tie(self.colour, self.key); }
};

}  // namespace

void expect_same_members(ProcessGroup& group, std::span<const std::vector<int>> lists,
                         const char* call) {
  const auto hashes = agree(group, [&] {
    Hasher hasher;
    for (const auto& ranks : lists) {
      const std::size_t count = ranks.size();
      hasher.update(&count, sizeof(count));
      hasher.update(ranks.data(), count * sizeof(int));
    }
    return hasher.digest();
  });
  const auto other =
      std::ranges::find_if(hashes, [&](std::uint64_t hash) { return hash != hashes.front(); });
  if (other == hashes.end()) return;
  std::vector<std::string> shown;
  for (const auto& ranks : lists) shown.push_back(fmt::format("[{}]", fmt::join(ranks, ", ")));
  throw InputError(fmt::format(
      "{} takes the same ranks on all ranks of the group, but ranks 0 and {} passed "
      "different ones (this one, rank {} of {}, passed {}). Call it once for each new "
      "group, on all ranks, or use new_subgroups_by_enumeration() or split() for "
      "several groups at a time",
      call, other - hashes.begin(), group.rank(), group.size(), fmt::join(shown, ", ")));
}

void expect_members(std::span<const int> ranks, int size, const char* call) {
  const auto in_group = [&](int r) { return r >= 0 && r < size; };
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted);
  if (!ranks.empty() && std::ranges::all_of(ranks, in_group) &&
      std::ranges::adjacent_find(sorted) == sorted.end()) {
    return;
  }
  throw InputError(fmt::format("{} takes one or more different ranks from 0 to {}, not [{}]", call,
                               size - 1, fmt::join(ranks, ", ")));
}

std::vector<int> members_of_split(ProcessGroup& group, int colour, int key) {
  const auto places = agree(group, [&] { return SplitArguments{colour, key}; });
  std::vector<int> members;
  if (colour < 0) return members;
  const auto place = [&](int r) { return places[static_cast<std::size_t>(r)]; };
  for (int r = 0; r < group.size(); ++r) {
    if (place(r).colour == colour) members.push_back(r);
  }
  std::ranges::stable_sort(members, {}, [&](int r) { return place(r).key; });
  return members;
}

void refuse_outside(const ProcessGroup& group, const char* call) {
  const auto* outside = dynamic_cast<const OutsideGroup*>(&group);
  const std::string who = outside ? fmt::format("rank {}", outside->who()) : "this rank";
  throw Error(
      fmt::format("{}: {} is not in this group, which has ranks [{}]: it may only ask for the "
                  "group's members. Call this only where group->rank() >= 0",
                  call, who, fmt::join(group.ranks(), ", ")));
}

Work OutsideGroup::start(Operation&& operation) { refuse_outside(*this, name_of(operation.kind)); }

std::shared_ptr<ProcessGroup> OutsideGroup::make_subgroup(std::span<const int> /*members*/) {
  refuse_outside(*this, "split");
}

Tensor OutsideGroup::shared_buffer(const Shape& /*shape*/, DType /*dtype*/) {
  refuse_outside(*this, "shared_buffer");
}

}  // namespace lockstep
