#include <lockstep/comm/mpi/calls.hpp>

#include <algorithm>

#include <lockstep/comm/mpi/message_calls.hpp>
#include <lockstep/comm/mpi/status.hpp>
#include <lockstep/comm/mpi/types.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// MPI's own collectives; calls too long for them go as messages.
class MpiCollective : public MessageCalls {
 public:
  using MessageCalls::MessageCalls;

  void start() {
    switch (operation().kind) {
      case Kind::barrier:
        return call([&](MPI_Request* request) { return MPI_Ibarrier(comm(), request); });
      case Kind::all_reduce:
        return all_reduce();
      case Kind::reduce:
        return reduce(all_of(input()), operation().root, output());
      case Kind::broadcast:
        return broadcast(output(), all_of(output()), operation().root);
      case Kind::all_gather:
        return all_gather();
      case Kind::gather:
        return gather();
      case Kind::scatter:
        return scatter();
      case Kind::reduce_scatter:
        return reduce_scatter();
      case Kind::all_to_all:
        return all_to_all();
      case Kind::send:
      case Kind::receive:
        break;
    }
  }

 private:
  /// True if every count and offset of one call over all ranks' parts is small enough. The result
  /// is the same on every rank: with equal shares `part` is this rank's share.
  [[nodiscard]] bool fits(const std::vector<std::int64_t>& counts, const Tensor& part,
                          std::int64_t unit) const {
    std::int64_t total = 0;
    for (const auto count : counts) total += count;
    if (counts.empty()) total = part.numel() * ranks().size();
    return total * unit <= place().max_count;
  }

  /// Writes counts and displacements of every rank's block, in units of `unit` bytes or elements.
  void lay_out(const std::vector<std::int64_t>& counts, std::int64_t unit) {
    int begin = 0;
    for (const auto count : counts) {
      calls().counts.push_back(static_cast<int>(count * unit));
      calls().displacements.push_back(begin);
      begin += calls().counts.back();
    }
  }

  [[nodiscard]] MPI_Comm comm() const { return ranks().collectives(); }
  [[nodiscard]] int root() const { return operation().root; }
  static int bytes_in(const Tensor& t) { return static_cast<int>(t.bytes()); }
  /// Address of this rank's part, or MPI_IN_PLACE if it already lies in the whole.
  static void* part_or_in_place(const Tensor& part, const Tensor& whole, Block block) {
    return part.data() == address_of(whole, block.begin) ? MPI_IN_PLACE : part.data();
  }

  // Split into several calls instead of one with a larger type: MPICH's MPI_Ibcast fails above 2^31
  // bytes.
  void broadcast(const Tensor& t, Block block, int root) {
    std::byte* const first = address_of(t, block.begin);
    const std::int64_t bytes = bytes_of(t, block.count);
    for (std::int64_t begin = 0; begin < bytes; begin += place().max_count) {
      const auto n = static_cast<int>(std::min(place().max_count, bytes - begin));
      call([&](MPI_Request* request) {
        return MPI_Ibcast(first + begin, n, MPI_BYTE, root, comm(), request);
      });
    }
  }

  void all_reduce() {
    const DType dtype = input().dtype();
    for (std::int64_t begin = 0; begin < input().numel(); begin += place().max_count) {
      const auto n = static_cast<int>(std::min(place().max_count, input().numel() - begin));
      call([&](MPI_Request* request) {
        return MPI_Iallreduce(operation().in_place() ? MPI_IN_PLACE : address_of(input(), begin),
                              address_of(output(), begin), n, mpi_type(dtype),
                              mpi_op(operation().op, dtype), comm(), request);
      });
    }
  }

  /// Reduces one block of the inputs into all of `output` on `root`.
  void reduce(Block block, int root, const Tensor& output) {
    const DType dtype = input().dtype();
    for (std::int64_t begin = 0; begin < block.count; begin += place().max_count) {
      const auto n = static_cast<int>(std::min(place().max_count, block.count - begin));
      const void* source = address_of(input(), block.begin + begin);
      void* target = ranks().rank() == root ? address_of(output, begin) : nullptr;
      call([&](MPI_Request* request) {
        return MPI_Ireduce(source == target ? MPI_IN_PLACE : source, target, n, mpi_type(dtype),
                           mpi_op(operation().op, dtype), root, comm(), request);
      });
    }
  }

  void all_gather() {
    const auto& counts = operation().output_counts;
    const Block mine = out(ranks().rank());
    if (!fits(counts, input(), bytes_of(output(), 1))) {
      copy_own(input(), all_of(input()), output(), mine);
      for (int r = 0; r < ranks().size(); ++r) broadcast(output(), out(r), r);
      return;
    }
    const void* const source = part_or_in_place(input(), output(), mine);
    const int n = bytes_in(input());
    lay_out(counts, bytes_of(output(), 1));
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Iallgather(source, n, MPI_BYTE, output().data(), n, MPI_BYTE, comm(), request);
      }
      return MPI_Iallgatherv(source, n, MPI_BYTE, output().data(), calls().counts.data(),
                             calls().displacements.data(), MPI_BYTE, comm(), request);
    });
  }

  void gather() {
    const auto& counts = operation().output_counts;
    if (!fits(counts, input(), bytes_of(input(), 1))) return MessageCalls::start();
    const void* const source =
        is_root() ? part_or_in_place(input(), output(), out(root())) : input().data();
    const int n = bytes_in(input());
    lay_out(counts, bytes_of(input(), 1));
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Igather(source, n, MPI_BYTE, output().data(), n, MPI_BYTE, root(), comm(),
                           request);
      }
      return MPI_Igatherv(source, n, MPI_BYTE, output().data(), calls().counts.data(),
                          calls().displacements.data(), MPI_BYTE, root(), comm(), request);
    });
  }

  void scatter() {
    const auto& counts = operation().input_counts;
    if (!fits(counts, output(), bytes_of(output(), 1))) return MessageCalls::start();
    void* const target =
        is_root() ? part_or_in_place(output(), input(), in(root())) : output().data();
    const int n = bytes_in(output());
    lay_out(counts, bytes_of(output(), 1));
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Iscatter(input().data(), n, MPI_BYTE, target, n, MPI_BYTE, root(), comm(),
                            request);
      }
      return MPI_Iscatterv(input().data(), calls().counts.data(), calls().displacements.data(),
                           MPI_BYTE, target, n, MPI_BYTE, root(), comm(), request);
    });
  }

  void reduce_scatter() {
    const auto& counts = operation().input_counts;
    if (!fits(counts, output(), 1)) {
      for (int r = 0; r < ranks().size(); ++r) reduce(in(r), r, output());
      return;
    }
    const MPI_Datatype type = mpi_type(input().dtype());
    const MPI_Op op = mpi_op(operation().op, input().dtype());
    lay_out(counts, 1);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        const auto n = static_cast<int>(output().numel());
        return MPI_Ireduce_scatter_block(input().data(), output().data(), n, type, op, comm(),
                                         request);
      }
      return MPI_Ireduce_scatter(input().data(), output().data(), calls().counts.data(), type, op,
                                 comm(), request);
    });
  }

  /// Calls with counts go as messages: counts differ by rank, and a message's length can be
  /// checked.
  void all_to_all() {
    const std::int64_t bytes = bytes_of(input(), input().numel());
    if (!operation().input_counts.empty() || bytes > place().max_count) {
      return MessageCalls::start();
    }
    const auto n = static_cast<int>(bytes / ranks().size());
    call([&](MPI_Request* request) {
      return MPI_Ialltoall(input().data(), n, MPI_BYTE, output().data(), n, MPI_BYTE, comm(),
                           request);
    });
  }
};

bool is_received(MpiReceive& receive, const MpiPlace& place, PendingReceives& pending) {
  if (receive.cancelled) return true;
  if (!receive.looked_for) {
    if (receive.length < 0) receive.test();
    return receive.length >= 0 || receive.cancelled;
  }
  while (receive.length < 0) {
    if (!pending.find(receive, place.max_count)) return false;
  }
  return is_complete(receive.request);
}

}  // namespace

void start_calls(const Operation& operation, const MpiPlace& place, MpiCalls& calls) {
  if (!operation.is_message() && place.ranks->have_communicator()) {
    return MpiCollective(operation, place, calls).start();
  }
  MessageCalls messages(operation, place, calls);
  switch (operation.kind) {
    case Kind::send:
      return messages.send_message();
    case Kind::receive:
      return messages.receive_message();
    default:
      return messages.start();
  }
}

bool go_on_with_calls(const Operation& operation, const MpiPlace& place, MpiCalls& calls) {
  return MessageCalls(operation, place, calls).go_on();
}

// One MPI_Test per request instead of MPI_Testall, which allocates a status array to report which
// one failed.
bool requests_over(MpiCalls& calls) {
  return std::ranges::all_of(calls.requests,
                             [](MPI_Request& request) { return is_complete(request); });
}

bool receives_over(MpiCalls& calls, const MpiPlace& place, PendingReceives& pending) {
  bool over = true;
  for (MpiReceive& receive : calls.receives) {
    over = is_received(receive, place, pending) && over;
    if (!over && !receive.looked_for) return false;
  }
  return over;
}

}  // namespace lockstep
