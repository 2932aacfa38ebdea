#include <lockstep/comm/mpi/leader_exchange.hpp>

#include <algorithm>

#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

}  // namespace

/// Messages launched together.
class LeaderExchange::Round {
 public:
  Round(const MpiRanks& leaders, std::int64_t k, std::vector<MPI_Request>& requests)
      : leaders_(leaders),
        tag_(leaders.tag(MpiRanks::Purpose::piece, static_cast<std::uint64_t>(k))),
        requests_(requests) {
    requests_.clear();
  }

  void send(int node, const std::byte* from, std::int64_t bytes) {
    expect_success(MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, leaders_.mpi_rank(node), tag_,
                             leaders_.collectives(), &requests_.emplace_back(MPI_REQUEST_NULL)));
  }
  void receive(int node, std::byte* to, std::int64_t bytes) {
    expect_success(MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, leaders_.mpi_rank(node), tag_,
                             leaders_.collectives(), &requests_.emplace_back(MPI_REQUEST_NULL)));
  }
  [[nodiscard]] const MpiRanks& leaders() const noexcept { return leaders_; }

 private:
  const MpiRanks& leaders_;
  int tag_;
  std::vector<MPI_Request>& requests_;
};

void LeaderExchange::start(const MpiRanks& leaders, const HierarchicalPlan& plan, std::int64_t k) {
  const StagingBuffers& staging = plan.staging();
  const Operation& operation = plan.operation();
  const NodeMap& map = staging.map();
  const int slot = static_cast<int>(k % StagingBuffers::slots), own = staging.own_node();
  const std::int64_t bytes = plan.piece(k).count * element_bytes(operation);
  const std::int64_t share = plan.share(plan.piece(k)) * element_bytes(operation);
  std::byte *const outgoing = staging.outgoing(slot), *const incoming = staging.incoming(slot);
  k_ = k;
  another_round_ = plan.by_shares();
  Round round(leaders, k, requests_);
  switch (operation.kind) {
    case Kind::broadcast: {
      const int root = map.node_of(operation.root);
      const std::int64_t length = another_round_ ? share : bytes;
      const auto part_of = [&](int n) { return another_round_ ? outgoing + n * share : outgoing; };
      if (own != root) {
        round.receive(root, part_of(own), length);
      } else {
        leaders.for_all_others([&](int n) { round.send(n, part_of(n), length); });
      }
      break;
    }
    case Kind::all_gather:
      leaders.for_all_others([&](int n) {
        round.receive(n, outgoing + map.begin(n) * bytes, map.ranks_on(n) * bytes);
      });
      leaders.for_all_others([&](int n) {
        round.send(n, outgoing + map.begin(own) * bytes, map.ranks_on(own) * bytes);
      });
      break;
    case Kind::reduce_scatter: {
      const std::int64_t mine = map.ranks_on(own) * bytes;
      leaders.for_all_others([&](int n) { round.receive(n, incoming + n * mine, mine); });
      leaders.for_all_others(
          [&](int n) { round.send(n, outgoing + map.begin(n) * bytes, map.ranks_on(n) * bytes); });
      copy_bytes(incoming + own * mine, outgoing + map.begin(own) * bytes, mine);
      break;
    }
    default:
      if (!another_round_) {
        spread_shares(round, plan, bytes);
        break;
      }
      leaders.for_all_others([&](int n) { round.receive(n, incoming + n * share, share); });
      leaders.for_all_others([&](int n) { round.send(n, outgoing + n * share, share); });
      copy_bytes(incoming + own * share, outgoing + own * share, share);
  }
}

bool LeaderExchange::move(const MpiRanks& leaders, const HierarchicalPlan& plan) {
  const auto all_are_over = [&] {
    return std::ranges::all_of(requests_,
                               [](MPI_Request& request) { return is_complete(request); });
  };
  while (all_are_over()) {
    if (!another_round_) return true;
    another_round_ = false;
    if (plan.operation().reduces()) plan.sum_share(k_);
    Round round(leaders, k_, requests_);
    spread_shares(round, plan, plan.share(plan.piece(k_)) * element_bytes(plan.operation()));
  }
  return false;
}

/// Sends this node's `share` bytes, at this node's place, to every node, or to the root's node
/// alone. For a broadcast the root's node gets none: it already has the data.
void LeaderExchange::spread_shares(Round& round, const HierarchicalPlan& plan,
                                   std::int64_t share) const {
  const MpiRanks& leaders = round.leaders();
  const StagingBuffers& staging = plan.staging();
  const Operation& operation = plan.operation();
  const int own = staging.own_node();
  const int root = operation.kind == Kind::all_reduce ? -1 : staging.map().node_of(operation.root);
  std::byte* const all = staging.outgoing(static_cast<int>(k_ % StagingBuffers::slots));
  const auto gets = [&](int n) {
    return root < 0 || (operation.kind == Kind::reduce ? n == root : n != root);
  };
  leaders.for_all_others([&](int n) {
    if (gets(own)) round.receive(n, all + n * share, share);
  });
  leaders.for_all_others([&](int n) {
    if (gets(n)) round.send(n, all + own * share, share);
  });
}

}  // namespace lockstep
