#include <lockstep/comm/mpi/leader_rendezvous.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/comm/mpi/all_gather_values.hpp>

namespace lockstep {
namespace {

int tag_of(const MpiNode& node, const Operation& operation) {
  return node.leaders().tag(MpiRanks::Purpose::rendezvous, operation.sequence);
}

}  // namespace

void LeaderRendezvous::start(MpiNode& node, const Operation& operation, bool alike) {
  started_ = true;
  if (!node->is_leader()) return;
  const std::uint64_t mine = node->slot_table().mine(operation.sequence).fingerprint;
  // if the node's ranks disagree: equal to no other node's
  constexpr auto none = ~std::uint64_t{0};
  max_.start(node.leaders(), tag_of(node, operation), {alike ? mine : none, alike ? ~mine : none});
}

// Each leader publishes the result to the ranks of its node: the collective's number, and in the
// lowest bit whether all calls are equal.
std::optional<bool> LeaderRendezvous::compare(MpiNode& node, const Operation& operation) {
  const SlotTable& table = node->slot_table();
  if (node->is_leader()) {
    if (!max_.move(node.leaders())) return std::nullopt;
    const std::uint64_t mine = table.mine(operation.sequence).fingerprint;
    const std::uint64_t equal = max_.known()[0] == mine && max_.known()[1] == ~mine ? 1 : 0;
    table.mine(operation.sequence)
        .agreed.store(operation.sequence << 1U | equal, std::memory_order_release);
  }
  const std::uint64_t found =
      table.slot(0, operation.sequence).agreed.load(std::memory_order_acquire);
  if (found >> 1U != operation.sequence) return std::nullopt;
  return (found & 1U) != 0;
}

std::string LeaderRendezvous::mismatch(MpiNode& node, const Operation& operation, int mismatched,
                                       const MpiWait& wait) {
  const SlotTable& table = node->slot_table();
  if (node->is_leader()) tell(node, operation, mismatched, wait);
  const SlotTable::Slot& leader = table.slot(0, operation.sequence);
  wait.until([&] { return leader.told.load(std::memory_order_acquire) == operation.sequence; });
  if (leader.other_rank < 0) return "a rank of another node made a different call";
  return "on another node, " +
         called_something_else(leader.other_rank, record_of(operation), leader.other_call);
}

/// The leaders exchange their own call and one of their node that differs from it. Each publishes
/// the first one that differs from its own.
void LeaderRendezvous::tell(MpiNode& node, const Operation& operation, int mismatched,
                            const MpiWait& wait) {
  const SlotTable& table = node->slot_table();
  struct Call {
    CallRecord call;
    std::uint64_t fingerprint;  // includes the counts
    int rank;
  };
  const auto call_of = [&](int node_rank) {
    const SlotTable::Slot& slot = table.slot(node_rank, operation.sequence);
    return Call{slot.call, slot.fingerprint, node->group_rank(node_rank)};
  };
  using Calls = std::array<Call, 2>;
  const Calls mine{call_of(0), call_of(std::max(mismatched, 0))};
  std::vector<Calls> all(static_cast<std::size_t>(node.leaders().size()));
  all_gather_bytes(&mine, sizeof mine, all.data(), node.leaders(), tag_of(node, operation), wait);
  SlotTable::Slot& told = table.mine(operation.sequence);
  for (const Calls& calls : all) {
    for (const Call& other : calls) {
      if (told.other_rank >= 0 || other.fingerprint == mine[0].fingerprint) continue;
      told.other_rank = other.rank;
      told.other_call = other.call;
    }
  }
  told.told.store(operation.sequence, std::memory_order_release);
}

}  // namespace lockstep
