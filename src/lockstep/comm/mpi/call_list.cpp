#include <lockstep/comm/mpi/call_list.hpp>

#include <cstring>

#include <lockstep/comm/mpi/types.hpp>

namespace lockstep {
namespace {

int collective_tag(const MpiRanks& ranks, const Operation& operation) {
  return ranks.tag(MpiRanks::Purpose::collective, operation.sequence);
}

}  // namespace

void CallList::send_message() {
  send(ranks().messages(), input(), all_of(input()), operation_.root,
       ranks().tag_of_message(operation_.tag, input().dtype()));
}

void CallList::receive_message() {
  const DType dtype = output().defined() ? output().dtype() : DType::u8;
  const int tag = ranks().tag_of_message(operation_.tag, dtype);
  if (output().defined()) {
    return receive(ranks().messages(), output(), all_of(output()), operation_.root, tag);
  }
  MpiReceive& message = note_receive(ranks().messages(), operation_.root, tag);
  message.bytes = MpiReceive::any_length;
  message.looked_for = true;
}

void CallList::send(const Tensor& t, Block block, int peer) {
  send(ranks().collectives(), t, block, peer, collective_tag(ranks(), operation_));
}

void CallList::receive(const Tensor& t, Block block, int peer) {
  receive(ranks().collectives(), t, block, peer, collective_tag(ranks(), operation_));
}

void CallList::copy_own(const Tensor& source, Block from, const Tensor& target, Block to) {
  if (address_of(source, from.begin) == address_of(target, to.begin) || from.count == 0) return;
  std::memcpy(address_of(target, to.begin), address_of(source, from.begin),
              static_cast<std::size_t>(bytes_of(source, from.count)));
}

void CallList::send(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag) {
  const MpiBytes bytes(bytes_of(t, block.count), place_.max_count);
  call([&](MPI_Request* request) {
    return MPI_Isend(address_of(t, block.begin), bytes.count(), bytes.type(),
                     ranks().mpi_rank(peer), tag, comm, request);
  });
}

void CallList::receive(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag) {
  MpiReceive& message = note_receive(comm, peer, tag);
  message.target = address_of(t, block.begin);
  message.bytes = bytes_of(t, block.count);
  message.looked_for = place_.probes;
  if (!message.looked_for && status_ == MPI_SUCCESS) status_ = message.post(place_.max_count);
}

MpiReceive& CallList::note_receive(MPI_Comm comm, int peer, int tag) {
  MpiReceive& message = calls_.receives.add();
  message.comm = comm;
  message.source = peer == any_source ? MPI_ANY_SOURCE : ranks().mpi_rank(peer);
  message.tag = tag;
  return message;
}

}  // namespace lockstep
