#include <lockstep/comm/mpi/message_calls.hpp>

#include <cstring>

#include <lockstep/comm/mpi/types.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

int collective_tag(const MpiRanks& ranks, const Operation& operation) {
  return ranks.tag(MpiRanks::Purpose::collective, operation.sequence);
}

}  // namespace

void MessageCalls::send_message() {
  send(ranks().messages(), input(), all_of(input()), operation_.root,
       ranks().tag_of_message(operation_.tag, input().dtype()));
}

void MessageCalls::receive_message() {
  const DType dtype = output().defined() ? output().dtype() : DType::u8;
  const int tag = ranks().tag_of_message(operation_.tag, dtype);
  if (output().defined()) {
    return receive(ranks().messages(), output(), all_of(output()), operation_.root, tag);
  }
  MpiReceive& message = note_receive(ranks().messages(), operation_.root, tag);
  message.bytes = MpiReceive::any_length;
  message.looked_for = true;
}

void MessageCalls::send(const Tensor& t, Block block, int peer) {
  send(ranks().collectives(), t, block, peer, collective_tag(ranks(), operation_));
}

void MessageCalls::receive(const Tensor& t, Block block, int peer) {
  receive(ranks().collectives(), t, block, peer, collective_tag(ranks(), operation_));
}

void MessageCalls::copy_own(const Tensor& source, Block from, const Tensor& target, Block to) {
  if (address_of(source, from.begin) == address_of(target, to.begin) || from.count == 0) return;
  std::memcpy(address_of(target, to.begin), address_of(source, from.begin),
              static_cast<std::size_t>(bytes_of(source, from.count)));
}

void MessageCalls::send(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag) {
  const MpiBytes bytes(bytes_of(t, block.count), place_.max_count);
  call([&](MPI_Request* request) {
    return MPI_Isend(address_of(t, block.begin), bytes.count(), bytes.type(),
                     ranks().mpi_rank(peer), tag, comm, request);
  });
}

void MessageCalls::receive(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag) {
  MpiReceive& message = note_receive(comm, peer, tag);
  message.target = address_of(t, block.begin);
  message.bytes = bytes_of(t, block.count);
  message.looked_for = place_.probes;
  if (!message.looked_for) message.post(place_.max_count);
}

MpiReceive& MessageCalls::note_receive(MPI_Comm comm, int peer, int tag) {
  MpiReceive& message = calls_.receives.add();
  message.comm = comm;
  message.source = peer == any_source ? MPI_ANY_SOURCE : ranks().mpi_rank(peer);
  message.tag = tag;
  return message;
}

void MessageCalls::start() {
  const int rank = ranks().rank(), root = operation().root;
  switch (operation().kind) {
    case Kind::broadcast:
      if (!is_root()) return receive(output(), all_of(output()), root);
      return ranks().for_all_others([&](int r) { send(input(), all_of(input()), r); });
    case Kind::all_gather:
      ranks().for_all_others([&](int r) { receive(output(), out(r), r); });
      ranks().for_all_others([&](int r) { send(input(), all_of(input()), r); });
      return copy_own(input(), all_of(input()), output(), out(rank));
    case Kind::gather:
      if (!is_root()) return send(input(), all_of(input()), root);
      ranks().for_all_others([&](int r) { receive(output(), out(r), r); });
      return copy_own(input(), all_of(input()), output(), out(rank));
    case Kind::scatter:
      if (!is_root()) return receive(output(), all_of(output()), root);
      ranks().for_all_others([&](int r) { send(input(), in(r), r); });
      return copy_own(input(), in(rank), output(), all_of(output()));
    case Kind::all_to_all:
      ranks().for_all_others([&](int r) { receive(output(), out(r), r); });
      ranks().for_all_others([&](int r) { send(input(), in(r), r); });
      return copy_own(input(), in(rank), output(), out(rank));
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter:
      return exchange_blocks();
    case Kind::barrier:  // the rendezvous was the barrier
    case Kind::send:
    case Kind::receive:
      return;
  }
}

Block MessageCalls::summed_by(int rank) const {
  if (operation().kind == Kind::reduce_scatter) return in(rank);
  const auto begin_of = [&](std::int64_t r) { return input().numel() * r / ranks().size(); };
  return {begin_of(rank), begin_of(rank + 1) - begin_of(rank)};
}

void MessageCalls::exchange_blocks() {
  const std::int64_t mine = summed_by(ranks().rank()).count;
  calls().arrived = Tensor::empty({ranks().size() * mine}, input().dtype());
  ranks().for_all_others([&](int r) { receive(calls().arrived, {r * mine, mine}, r); });
  ranks().for_all_others([&](int r) { send(input(), summed_by(r), r); });
}

bool MessageCalls::go_on() {
  const Tensor arrived = std::move(calls().arrived);
  calls().arrived = {};
  calls().receives = {};
  calls().requests = {};
  const int rank = ranks().rank();
  const Block mine = summed_by(rank);
  std::vector<const void*> sources;
  for (int r = 0; r < ranks().size(); ++r) {
    sources.push_back(r == rank ? address_of(input(), mine.begin)
                                : address_of(arrived, r * mine.count));
  }
  const bool scatters = operation().kind == Kind::reduce_scatter;
  const bool stays = operation().kind == Kind::reduce && !is_root();
  void* const sum = stays ? address_of(arrived, rank * mine.count)
                          : address_of(output(), scatters ? 0 : mine.begin);
  // For avg the division comes last, as in MPI's own collectives.
  const ReduceOp op = operation().op == ReduceOp::avg ? ReduceOp::sum : operation().op;
  reduce_ranks(op, input().dtype(), sources, mine.count, {&sum, 1});
  if (scatters) return false;
  if (stays) {
    calls().sent = arrived;
    send(arrived, {rank * mine.count, mine.count}, operation().root);
    return true;
  }
  ranks().for_all_others([&](int r) { receive(output(), summed_by(r), r); });
  if (operation().kind == Kind::all_reduce) {
    ranks().for_all_others([&](int r) { send(output(), mine, r); });
  }
  return true;
}

}  // namespace lockstep
