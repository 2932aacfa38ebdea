#include <lockstep/comm/subgroup.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>

namespace lockstep {

void expect_same_members(ProcessGroup& group, std::span<const int> ranks) {
  const std::uint64_t own = hash64(ranks.data(), ranks.size_bytes());
  const auto mine = Tensor::from(std::vector{static_cast<std::int64_t>(own)}, {1});
  const auto all = Tensor::empty({group.size(), 1}, DType::i64);
  group.all_gather(mine, all).wait();
  const auto hashes = all.to_vector<std::int64_t>();
  const auto other =
      std::ranges::find_if(hashes, [&](std::int64_t hash) { return hash != hashes.front(); });
  if (other == hashes.end()) return;
  throw InputError(fmt::format(
      "new_group takes the same list on all ranks of the group, but those of ranks 0 and {} differ "
      "(this one, rank {} of {}, passed [{}]). Call it once for each list, on all ranks, or use "
      "split() for several groups at a time",
      other - hashes.begin(), group.rank(), group.size(), fmt::join(ranks, ", ")));
}

void expect_members(std::span<const int> ranks, int size) {
  const auto in_group = [&](int r) { return r >= 0 && r < size; };
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted);
  if (!ranks.empty() && std::ranges::all_of(ranks, in_group) &&
      std::ranges::adjacent_find(sorted) == sorted.end()) {
    return;
  }
  throw InputError(fmt::format("new_group takes different ranks of 0 to {}, one at least, not [{}]",
                               size - 1, fmt::join(ranks, ", ")));
}

std::vector<int> members_of_split(ProcessGroup& group, int colour, int key) {
  const auto mine = Tensor::from(std::vector<std::int32_t>{colour, key}, {2});
  const auto all = Tensor::empty({group.size(), 2}, DType::i32);
  group.all_gather(mine, all).wait();
  const auto pairs = all.to_vector<std::int32_t>();

  std::vector<int> members;
  if (colour < 0) return members;
  for (int r = 0; r < group.size(); ++r) {
    if (pairs[2 * static_cast<std::size_t>(r)] == colour) members.push_back(r);
  }
  std::ranges::stable_sort(members, {},
                           [&](int r) { return pairs[2 * static_cast<std::size_t>(r) + 1]; });
  return members;
}

}  // namespace lockstep
