#include <lockstep/comm/mpi/leaders_exchange.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// As long as an element: what is only moved needs no other type.
MPI_Datatype type_of(const Operation& operation) {
  switch (element_bytes(operation)) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

}  // namespace

void LeadersExchange::Counts::clear() {
  counts.clear();
  begins.clear();
}

void LeadersExchange::Counts::add(std::int64_t count, std::int64_t begin) {
  counts.push_back(static_cast<int>(count));
  begins.push_back(static_cast<int>(begin));
}

int LeadersExchange::start(MPI_Comm leaders, Depot& depot, const Crossing& crossing,
                           const Operation& operation, std::int64_t k) {
  const NodeMap& map = depot.map();
  const int slot = static_cast<int>(k % Depot::slots), own = depot.own_node();
  const std::int64_t count = crossing.piece(k).count;
  const MPI_Datatype type = type_of(operation);
  std::byte *const leaving = depot.leaving(slot), *const arriving = depot.arriving(slot);
  k_ = k;
  to_.clear();
  from_.clear();
  switch (operation.kind) {
    case Kind::broadcast:
      return MPI_Ibcast(leaving, static_cast<int>(count), type, map.node_of(operation.root),
                        leaders, &request_);
    case Kind::all_gather:
      for (int n = 0; n < map.nodes(); ++n)
        from_.add(map.ranks_on(n) * count, map.begin(n) * count);
      return MPI_Iallgatherv(MPI_IN_PLACE, 0, type, leaving, from_.counts.data(),
                             from_.begins.data(), type, leaders, &request_);
    case Kind::reduce_scatter: {
      const std::int64_t mine = map.ranks_on(own) * count;
      for (int n = 0; n < map.nodes(); ++n) {
        to_.add(map.ranks_on(n) * count, map.begin(n) * count);
        from_.add(mine, n * mine);
      }
      return MPI_Ialltoallv(leaving, to_.counts.data(), to_.begins.data(), type, arriving,
                            from_.counts.data(), from_.begins.data(), type, leaders, &request_);
    }
    default: {
      if (!crossing.by_shares()) return send_sums(leaders, depot, operation, count);
      sums_share_ = true;
      const auto share = static_cast<int>(crossing.share(crossing.piece(k)));
      return MPI_Ialltoall(leaving, share, type, arriving, share, type, leaders, &request_);
    }
  }
}

bool LeadersExchange::move(MPI_Comm leaders, Depot& depot, const Crossing& crossing,
                           const Operation& operation, int& status) {
  for (;;) {
    int over = 0;
    status = MPI_Test(&request_, &over, MPI_STATUS_IGNORE);
    if (status != MPI_SUCCESS || over == 0) return false;
    if (!sums_share_) return true;
    sums_share_ = false;
    crossing.sum_share(depot, operation, k_);
    status = send_sums(leaders, depot, operation, crossing.share(crossing.piece(k_)));
    if (status != MPI_SUCCESS) return false;
  }
}

/// `count` elements of this node stand at its place among all nodes': to every node, or to the
/// root's.
int LeadersExchange::send_sums(MPI_Comm leaders, Depot& depot, const Operation& operation,
                               std::int64_t count) {
  const int own = depot.own_node(), n = static_cast<int>(count);
  const MPI_Datatype type = type_of(operation);
  std::byte* const all = depot.leaving(static_cast<int>(k_ % Depot::slots));
  if (operation.kind == Kind::all_reduce) {
    return MPI_Iallgather(MPI_IN_PLACE, 0, type, all, n, type, leaders, &request_);
  }
  const int root = depot.map().node_of(operation.root);
  if (own == root)
    return MPI_Igather(MPI_IN_PLACE, 0, type, all, n, type, root, leaders, &request_);
  return MPI_Igather(all + own * count * element_bytes(operation), n, type, nullptr, 0, type, root,
                     leaders, &request_);
}

}  // namespace lockstep
