#include <lockstep/comm/mpi/calls.hpp>

#include <algorithm>
#include <cstring>

#include <lockstep/comm/mpi/types.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

std::int64_t bytes_of(const Tensor& t, std::int64_t elements) {
  return elements * static_cast<std::int64_t>(size_of(t.dtype()));
}

/// Makes calls until one fails.
class Starter {
 public:
  Starter(const Operation& operation, const MpiPlace& place, MpiCalls& calls)
      : operation_(operation),
        place_(place),
        calls_(calls),
        input_(operation.input),
        output_(operation.output) {}

  int start() {
    switch (operation_.kind) {
      case Kind::barrier:
        call([&](MPI_Request* request) { return MPI_Ibarrier(place_.collectives, request); });
        break;
      case Kind::all_reduce:
        all_reduce();
        break;
      case Kind::reduce:
        reduce({0, input_.numel()}, operation_.root, output_);
        break;
      case Kind::broadcast:
        broadcast(output_, {0, output_.numel()}, operation_.root);
        break;
      case Kind::all_gather:
        all_gather();
        break;
      case Kind::gather:
        gather();
        break;
      case Kind::scatter:
        scatter();
        break;
      case Kind::reduce_scatter:
        reduce_scatter();
        break;
      case Kind::all_to_all:
        all_to_all();
        break;
      case Kind::send:
        send(place_.messages, input_, {0, input_.numel()}, operation_.root, operation_.tag);
        break;
      case Kind::receive:
        receive_message();
        break;
    }
    return status_;
  }

 private:
  template <class F>
  void call(const F& f) {
    if (status_ != MPI_SUCCESS) return;
    status_ = f(&calls_.requests.add());
    if (status_ != MPI_SUCCESS) calls_.requests.drop_last();
  }

  [[nodiscard]] bool is_root() const { return place_.rank == operation_.root; }
  [[nodiscard]] Block in(int rank) const {
    return block_of(operation_.input_counts, input_.numel(), place_.size, rank);
  }
  [[nodiscard]] Block out(int rank) const {
    return block_of(operation_.output_counts, output_.numel(), place_.size, rank);
  }

  /// True if every count and offset of one call over all ranks' parts is small enough. The same on
  /// every rank: `part` is this rank's share where shares are equal.
  [[nodiscard]] bool fits(const std::vector<std::int64_t>& counts, const Tensor& part,
                          std::int64_t unit) const {
    std::int64_t total = 0;
    for (const auto count : counts) total += count;
    if (counts.empty()) total = part.numel() * place_.size;
    return total * unit <= place_.max_count;
  }

  /// Writes counts and displacements of every rank's block, in units of `unit` bytes or elements.
  void lay_out(const std::vector<std::int64_t>& counts, std::int64_t unit) {
    int begin = 0;
    for (const auto count : counts) {
      calls_.counts.push_back(static_cast<int>(count * unit));
      calls_.displacements.push_back(begin);
      begin += calls_.counts.back();
    }
  }

  void copy_own(const Tensor& source, Block from, const Tensor& target, Block to) {
    if (address_of(source, from.begin) == address_of(target, to.begin) || from.count == 0) return;
    std::memcpy(address_of(target, to.begin), address_of(source, from.begin),
                static_cast<std::size_t>(bytes_of(source, from.count)));
  }

  void send(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag) {
    const MpiBytes bytes(bytes_of(t, block.count), place_.max_count);
    call([&](MPI_Request* request) {
      return MPI_Isend(address_of(t, block.begin), bytes.count(), bytes.type(), peer, tag, comm,
                       request);
    });
  }

  void receive_message() {
    const int peer = operation_.root == any_source ? MPI_ANY_SOURCE : operation_.root;
    if (output_.defined()) {
      return receive(place_.messages, output_, {0, output_.numel()}, peer, operation_.tag);
    }
    MpiReceive& message = note_receive(place_.messages, peer, operation_.tag);
    message.bytes = MpiReceive::any_length;
    message.looked_for = true;
  }

  void receive(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag) {
    MpiReceive& message = note_receive(comm, peer, tag);
    message.target = address_of(t, block.begin);
    message.bytes = bytes_of(t, block.count);
    message.looked_for = place_.probes;
    if (!message.looked_for && status_ == MPI_SUCCESS) status_ = message.post(place_.max_count);
  }

  MpiReceive& note_receive(MPI_Comm comm, int peer, int tag) {
    MpiReceive& message = calls_.receives.add();
    message.comm = comm;
    message.source = peer;
    message.tag = tag;
    return message;
  }

  // In several calls, and not as one of a type of its own: MPICH's MPI_Ibcast fails above 2^31
  // bytes.
  void broadcast(const Tensor& t, Block block, int root) {
    std::byte* const first = address_of(t, block.begin);
    const std::int64_t bytes = bytes_of(t, block.count);
    for (std::int64_t begin = 0; begin < bytes; begin += place_.max_count) {
      const auto n = static_cast<int>(std::min(place_.max_count, bytes - begin));
      call([&](MPI_Request* request) {
        return MPI_Ibcast(first + begin, n, MPI_BYTE, root, place_.collectives, request);
      });
    }
  }

  void all_reduce() {
    const DType dtype = input_.dtype();
    for (std::int64_t begin = 0; begin < input_.numel(); begin += place_.max_count) {
      const auto n = static_cast<int>(std::min(place_.max_count, input_.numel() - begin));
      call([&](MPI_Request* request) {
        return MPI_Iallreduce(operation_.in_place() ? MPI_IN_PLACE : address_of(input_, begin),
                              address_of(output_, begin), n, mpi_type(dtype),
                              mpi_op(operation_.op, dtype), place_.collectives, request);
      });
    }
  }

  /// The reduction of one block of the inputs, on `root`, into all of `output`.
  void reduce(Block block, int root, const Tensor& output) {
    const DType dtype = input_.dtype();
    for (std::int64_t begin = 0; begin < block.count; begin += place_.max_count) {
      const auto n = static_cast<int>(std::min(place_.max_count, block.count - begin));
      const void* source = address_of(input_, block.begin + begin);
      void* target = place_.rank == root ? address_of(output, begin) : nullptr;
      call([&](MPI_Request* request) {
        return MPI_Ireduce(source == target ? MPI_IN_PLACE : source, target, n, mpi_type(dtype),
                           mpi_op(operation_.op, dtype), root, place_.collectives, request);
      });
    }
  }

  void all_gather() {
    const auto& counts = operation_.output_counts;
    const auto unit = static_cast<std::int64_t>(size_of(output_.dtype()));
    const Block mine = out(place_.rank);
    if (!fits(counts, input_, unit)) {
      copy_own(input_, {0, input_.numel()}, output_, mine);
      for (int r = 0; r < place_.size; ++r) broadcast(output_, out(r), r);
      return;
    }
    const bool in_place = input_.data() == address_of(output_, mine.begin);
    const void* source = in_place ? MPI_IN_PLACE : input_.data();
    const auto n = static_cast<int>(input_.bytes());
    lay_out(counts, unit);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Iallgather(source, n, MPI_BYTE, output_.data(), n, MPI_BYTE, place_.collectives,
                              request);
      }
      return MPI_Iallgatherv(source, n, MPI_BYTE, output_.data(), calls_.counts.data(),
                             calls_.displacements.data(), MPI_BYTE, place_.collectives, request);
    });
  }

  void gather() {
    const auto& counts = operation_.output_counts;
    const auto unit = static_cast<std::int64_t>(size_of(input_.dtype()));
    const Block all{0, input_.numel()};
    if (!fits(counts, input_, unit)) {
      if (!is_root()) return send(place_.collectives, input_, all, operation_.root, own_tag);
      for (int r = 0; r < place_.size; ++r) {
        if (r != place_.rank) receive(place_.collectives, output_, out(r), r, own_tag);
      }
      return copy_own(input_, all, output_, out(place_.rank));
    }
    const bool in_place = is_root() && input_.data() == address_of(output_, out(place_.rank).begin);
    const void* source = in_place ? MPI_IN_PLACE : input_.data();
    const auto n = static_cast<int>(input_.bytes());
    lay_out(counts, unit);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Igather(source, n, MPI_BYTE, output_.data(), n, MPI_BYTE, operation_.root,
                           place_.collectives, request);
      }
      return MPI_Igatherv(source, n, MPI_BYTE, output_.data(), calls_.counts.data(),
                          calls_.displacements.data(), MPI_BYTE, operation_.root,
                          place_.collectives, request);
    });
  }

  void scatter() {
    const auto& counts = operation_.input_counts;
    const auto unit = static_cast<std::int64_t>(size_of(output_.dtype()));
    const Block all{0, output_.numel()};
    if (!fits(counts, output_, unit)) {
      if (!is_root()) return receive(place_.collectives, output_, all, operation_.root, own_tag);
      for (int r = 0; r < place_.size; ++r) {
        if (r != place_.rank) send(place_.collectives, input_, in(r), r, own_tag);
      }
      return copy_own(input_, in(place_.rank), output_, all);
    }
    const bool in_place = is_root() && output_.data() == address_of(input_, in(place_.rank).begin);
    void* target = in_place ? MPI_IN_PLACE : output_.data();
    const auto n = static_cast<int>(output_.bytes());
    lay_out(counts, unit);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Iscatter(input_.data(), n, MPI_BYTE, target, n, MPI_BYTE, operation_.root,
                            place_.collectives, request);
      }
      return MPI_Iscatterv(input_.data(), calls_.counts.data(), calls_.displacements.data(),
                           MPI_BYTE, target, n, MPI_BYTE, operation_.root, place_.collectives,
                           request);
    });
  }

  void reduce_scatter() {
    const auto& counts = operation_.input_counts;
    const DType dtype = input_.dtype();
    if (!fits(counts, output_, 1)) {
      for (int r = 0; r < place_.size; ++r) reduce(in(r), r, output_);
      return;
    }
    lay_out(counts, 1);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Ireduce_scatter_block(input_.data(), output_.data(),
                                         static_cast<int>(output_.numel()), mpi_type(dtype),
                                         mpi_op(operation_.op, dtype), place_.collectives, request);
      }
      return MPI_Ireduce_scatter(input_.data(), output_.data(), calls_.counts.data(),
                                 mpi_type(dtype), mpi_op(operation_.op, dtype), place_.collectives,
                                 request);
    });
  }

  /// With counts as messages, whose lengths can be checked: they differ by rank.
  void all_to_all() {
    const auto unit = static_cast<std::int64_t>(size_of(input_.dtype()));
    if (operation_.input_counts.empty() && input_.numel() * unit <= place_.max_count) {
      const auto n = static_cast<int>(input_.numel() * unit / place_.size);
      call([&](MPI_Request* request) {
        return MPI_Ialltoall(input_.data(), n, MPI_BYTE, output_.data(), n, MPI_BYTE,
                             place_.collectives, request);
      });
      return;
    }
    for (int step = 1; step < place_.size; ++step) {
      const int from = (place_.rank + place_.size - step) % place_.size;
      receive(place_.collectives, output_, out(from), from, own_tag);
    }
    for (int step = 1; step < place_.size; ++step) {
      const int to = (place_.rank + step) % place_.size;
      send(place_.collectives, input_, in(to), to, own_tag);
    }
    copy_own(input_, in(place_.rank), output_, out(place_.rank));
  }

  // Messages within collectives: those of one pair of ranks arrive in the order of the calls.
  static constexpr int own_tag = 0;

  const Operation& operation_;
  const MpiPlace& place_;
  MpiCalls& calls_;
  const Tensor& input_;
  const Tensor& output_;
  int status_ = MPI_SUCCESS;
};

bool is_over(MPI_Request& request, int& status) {
  if (request == MPI_REQUEST_NULL) return true;
  int over = 0;
  status = MPI_Test(&request, &over, MPI_STATUS_IGNORE);
  return status == MPI_SUCCESS && over != 0;
}

bool is_over(MpiReceive& receive, const MpiPlace& place, PendingReceives& pending, int& status) {
  if (receive.cancelled) return true;
  if (!receive.looked_for) {
    if (receive.length < 0) status = receive.test();
    return receive.length >= 0 || receive.cancelled;
  }
  while (receive.length < 0) {
    if (!pending.find(receive, place.max_count, status)) return false;
  }
  if (receive.taken != MPI_SUCCESS) status = receive.taken;
  return status == MPI_SUCCESS && is_over(receive.request, status);
}

}  // namespace

int start_calls(const Operation& operation, const MpiPlace& place, MpiCalls& calls) {
  return Starter(operation, place, calls).start();
}

// One MPI_Test each and not MPI_Testall, which allocates a status a message to tell what failed.
bool requests_over(MpiCalls& calls, int& status) {
  for (MPI_Request& request : calls.requests) {
    if (!is_over(request, status)) return false;
  }
  return true;
}

bool receives_over(MpiCalls& calls, const MpiPlace& place, PendingReceives& pending, int& status) {
  bool over = true;
  for (MpiReceive& receive : calls.receives) {
    over = is_over(receive, place, pending, status) && over;
    if (status != MPI_SUCCESS || (!over && !receive.looked_for)) return false;
  }
  return over;
}

}  // namespace lockstep
