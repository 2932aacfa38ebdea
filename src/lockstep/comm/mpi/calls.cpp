#include <lockstep/comm/mpi/calls.hpp>

#include <algorithm>

#include <lockstep/comm/mpi/collectives_by_messages.hpp>
#include <lockstep/comm/mpi/types.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// By MPI's own collectives, and by messages what is too long for them.
class MpiCollective : public CollectiveByMessages {
 public:
  using CollectiveByMessages::CollectiveByMessages;

  void start() {
    switch (operation().kind) {
      case Kind::barrier:
        return call(
            [&](MPI_Request* request) { return MPI_Ibarrier(ranks().collectives(), request); });
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
  /// True if every count and offset of one call over all ranks' parts is small enough. The same on
  /// every rank: `part` is this rank's share where shares are equal.
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

  // In several calls, and not as one of a type of its own: MPICH's MPI_Ibcast fails above 2^31
  // bytes.
  void broadcast(const Tensor& t, Block block, int root) {
    std::byte* const first = address_of(t, block.begin);
    const std::int64_t bytes = bytes_of(t, block.count);
    for (std::int64_t begin = 0; begin < bytes; begin += place().max_count) {
      const auto n = static_cast<int>(std::min(place().max_count, bytes - begin));
      call([&](MPI_Request* request) {
        return MPI_Ibcast(first + begin, n, MPI_BYTE, root, ranks().collectives(), request);
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
                              mpi_op(operation().op, dtype), ranks().collectives(), request);
      });
    }
  }

  /// The reduction of one block of the inputs, on `root`, into all of `output`.
  void reduce(Block block, int root, const Tensor& output) {
    const DType dtype = input().dtype();
    for (std::int64_t begin = 0; begin < block.count; begin += place().max_count) {
      const auto n = static_cast<int>(std::min(place().max_count, block.count - begin));
      const void* source = address_of(input(), block.begin + begin);
      void* target = ranks().rank() == root ? address_of(output, begin) : nullptr;
      call([&](MPI_Request* request) {
        return MPI_Ireduce(source == target ? MPI_IN_PLACE : source, target, n, mpi_type(dtype),
                           mpi_op(operation().op, dtype), root, ranks().collectives(), request);
      });
    }
  }

  void all_gather() {
    const auto& counts = operation().output_counts;
    const auto unit = static_cast<std::int64_t>(size_of(output().dtype()));
    const Block mine = out(ranks().rank());
    if (!fits(counts, input(), unit)) {
      copy_own(input(), all_of(input()), output(), mine);
      for (int r = 0; r < ranks().size(); ++r) broadcast(output(), out(r), r);
      return;
    }
    const bool in_place = input().data() == address_of(output(), mine.begin);
    const void* source = in_place ? MPI_IN_PLACE : input().data();
    const auto n = static_cast<int>(input().bytes());
    lay_out(counts, unit);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Iallgather(source, n, MPI_BYTE, output().data(), n, MPI_BYTE,
                              ranks().collectives(), request);
      }
      return MPI_Iallgatherv(source, n, MPI_BYTE, output().data(), calls().counts.data(),
                             calls().displacements.data(), MPI_BYTE, ranks().collectives(),
                             request);
    });
  }

  void gather() {
    const auto& counts = operation().output_counts;
    const auto unit = static_cast<std::int64_t>(size_of(input().dtype()));
    if (!fits(counts, input(), unit)) return CollectiveByMessages::start();
    const bool in_place =
        is_root() && input().data() == address_of(output(), out(ranks().rank()).begin);
    const void* source = in_place ? MPI_IN_PLACE : input().data();
    const auto n = static_cast<int>(input().bytes());
    lay_out(counts, unit);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Igather(source, n, MPI_BYTE, output().data(), n, MPI_BYTE, operation().root,
                           ranks().collectives(), request);
      }
      return MPI_Igatherv(source, n, MPI_BYTE, output().data(), calls().counts.data(),
                          calls().displacements.data(), MPI_BYTE, operation().root,
                          ranks().collectives(), request);
    });
  }

  void scatter() {
    const auto& counts = operation().input_counts;
    const auto unit = static_cast<std::int64_t>(size_of(output().dtype()));
    if (!fits(counts, output(), unit)) return CollectiveByMessages::start();
    const bool in_place =
        is_root() && output().data() == address_of(input(), in(ranks().rank()).begin);
    void* target = in_place ? MPI_IN_PLACE : output().data();
    const auto n = static_cast<int>(output().bytes());
    lay_out(counts, unit);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Iscatter(input().data(), n, MPI_BYTE, target, n, MPI_BYTE, operation().root,
                            ranks().collectives(), request);
      }
      return MPI_Iscatterv(input().data(), calls().counts.data(), calls().displacements.data(),
                           MPI_BYTE, target, n, MPI_BYTE, operation().root, ranks().collectives(),
                           request);
    });
  }

  void reduce_scatter() {
    const auto& counts = operation().input_counts;
    const DType dtype = input().dtype();
    if (!fits(counts, output(), 1)) {
      for (int r = 0; r < ranks().size(); ++r) reduce(in(r), r, output());
      return;
    }
    lay_out(counts, 1);
    call([&](MPI_Request* request) {
      if (counts.empty()) {
        return MPI_Ireduce_scatter_block(
            input().data(), output().data(), static_cast<int>(output().numel()), mpi_type(dtype),
            mpi_op(operation().op, dtype), ranks().collectives(), request);
      }
      return MPI_Ireduce_scatter(input().data(), output().data(), calls().counts.data(),
                                 mpi_type(dtype), mpi_op(operation().op, dtype),
                                 ranks().collectives(), request);
    });
  }

  /// With counts as messages, whose lengths can be checked: they differ by rank.
  void all_to_all() {
    const auto unit = static_cast<std::int64_t>(size_of(input().dtype()));
    if (operation().input_counts.empty() && input().numel() * unit <= place().max_count) {
      const auto n = static_cast<int>(input().numel() * unit / ranks().size());
      call([&](MPI_Request* request) {
        return MPI_Ialltoall(input().data(), n, MPI_BYTE, output().data(), n, MPI_BYTE,
                             ranks().collectives(), request);
      });
      return;
    }
    CollectiveByMessages::start();
  }
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
  if (operation.is_message()) {
    CallList message(operation, place, calls);
    operation.kind == Kind::send ? message.send_message() : message.receive_message();
    return message.status();
  }
  if (!place.ranks->have_communicator()) {
    CollectiveByMessages collective(operation, place, calls);
    collective.start();
    return collective.status();
  }
  MpiCollective collective(operation, place, calls);
  collective.start();
  return collective.status();
}

bool go_on_with_calls(const Operation& operation, const MpiPlace& place, MpiCalls& calls,
                      int& status) {
  CollectiveByMessages collective(operation, place, calls);
  const bool more = collective.go_on();
  status = collective.status();
  return more;
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
