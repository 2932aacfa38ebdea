#include <lockstep/checkpoint/save/node_shares.hpp>

#include <algorithm>

namespace lockstep {

int NodeShares::holder_on(const PlannedDataset& planned, const Slab& slab, std::size_t number,
                          int node) const {
  if (nodes_.node_of(slab.owner) == node) return slab.owner;
  const auto& ranks = nodes_.ranks_on(node);
  const auto holds = [&](int rank) { return planned.place_on(rank, slab).has_value(); };
  const auto holders = static_cast<std::size_t>(std::ranges::count_if(ranks, holds));
  if (holders == 0) return -1;
  std::size_t turn = number % holders;
  return *std::ranges::find_if(ranks, [&](int rank) { return holds(rank) && turn-- == 0; });
}

SlabRoute NodeShares::route(const PlannedDataset& planned, const Slab& slab, std::size_t number,
                            int node) const {
  const int here = holder_on(planned, slab, number, node);
  if (here >= 0) return {here, here};
  const int before = holder_on(planned, slab, number, (node + size() - 1) % size());
  if (before < 0) return {};
  const auto& ranks = nodes_.ranks_on(node);
  return {before, ranks[number % ranks.size()]};
}

std::int64_t NodeShares::bytes(const std::vector<PlannedDataset>& plan, int node) const {
  std::int64_t total = 0;
  for (const PlannedDataset& planned : plan) {
    for (const Slab& slab : planned.entry.slabs) {
      if (route(planned, slab, 0, node).writer >= 0) total += slab.bytes;
    }
  }
  return total;
}

}  // namespace lockstep
