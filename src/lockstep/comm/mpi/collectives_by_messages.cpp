#include <lockstep/comm/mpi/collectives_by_messages.hpp>

#include <lockstep/comm/node/reduce_ranks.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

}  // namespace

void CollectiveByMessages::start() {
  const int rank = ranks_.rank(), root = operation_.root;
  switch (operation_.kind) {
    case Kind::broadcast:
      if (!is_root()) return receive(output_, all_of(output_), root);
      return for_all_others([&](int r) { send(input_, all_of(input_), r); });
    case Kind::all_gather:
      for_all_others([&](int r) { receive(output_, out(r), r); });
      for_all_others([&](int r) { send(input_, all_of(input_), r); });
      return copy_own(input_, all_of(input_), output_, out(rank));
    case Kind::gather:
      if (!is_root()) return send(input_, all_of(input_), root);
      for_all_others([&](int r) { receive(output_, out(r), r); });
      return copy_own(input_, all_of(input_), output_, out(rank));
    case Kind::scatter:
      if (!is_root()) return receive(output_, all_of(output_), root);
      for_all_others([&](int r) { send(input_, in(r), r); });
      return copy_own(input_, in(rank), output_, all_of(output_));
    case Kind::all_to_all:
      for_all_others([&](int r) { receive(output_, out(r), r); });
      for_all_others([&](int r) { send(input_, in(r), r); });
      return copy_own(input_, in(rank), output_, out(rank));
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter:
      return exchange_blocks();
    case Kind::barrier:  // that all have made the call was found out before
    case Kind::send:
    case Kind::receive:
      return;
  }
}

Block CollectiveByMessages::summed_by(int rank) const {
  if (operation_.kind == Kind::reduce_scatter) return in(rank);
  const auto begin_of = [&](std::int64_t r) { return input_.numel() * r / ranks_.size(); };
  return {begin_of(rank), begin_of(rank + 1) - begin_of(rank)};
}

void CollectiveByMessages::exchange_blocks() {
  const std::int64_t mine = summed_by(ranks_.rank()).count;
  calls_.arrived = Tensor::empty({ranks_.size() * mine}, input_.dtype());
  for_all_others([&](int r) { receive(calls_.arrived, {r * mine, mine}, r); });
  for_all_others([&](int r) { send(input_, summed_by(r), r); });
}

bool CollectiveByMessages::go_on() {
  const Tensor arrived = std::move(calls_.arrived);
  calls_.arrived = {};
  calls_.receives = {};
  calls_.requests = {};
  const int rank = ranks_.rank();
  const Block mine = summed_by(rank);
  std::vector<const void*> sources;
  for (int r = 0; r < ranks_.size(); ++r) {
    sources.push_back(r == rank ? address_of(input_, mine.begin)
                                : address_of(arrived, r * mine.count));
  }
  const bool scatters = operation_.kind == Kind::reduce_scatter;
  const bool stays = operation_.kind == Kind::reduce && !is_root();
  void* const sum = stays ? address_of(arrived, rank * mine.count)
                          : address_of(output_, scatters ? 0 : mine.begin);
  // What avg divides by comes at the end, as with MPI's own collectives.
  const ReduceOp op = operation_.op == ReduceOp::avg ? ReduceOp::sum : operation_.op;
  reduce_ranks(op, input_.dtype(), sources, mine.count, {&sum, 1});
  if (scatters) return false;
  if (stays) {
    calls_.sent = arrived;
    send(arrived, {rank * mine.count, mine.count}, operation_.root);
    return true;
  }
  for_all_others([&](int r) { receive(output_, summed_by(r), r); });
  if (operation_.kind == Kind::all_reduce) {
    for_all_others([&](int r) { send(output_, mine, r); });
  }
  return true;
}

}  // namespace lockstep
