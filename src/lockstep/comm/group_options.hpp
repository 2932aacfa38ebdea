#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

class DeckTable;

/// The fields of a collective that ranks compare before any of them reads its result.
enum class Contract : std::uint8_t {
  off,   ///< no check: ranks whose calls differ get garbage, or hang
  hash,  ///< operation, dtype, number of elements, reduction, root
  full,  ///< the shapes too: [2, 3] does not meet [3, 2]
  /// As hash, but an nccl group compares the operations on a device while they run, so that no call
  /// waits for other ranks: see make_nccl_group.
  late,
};

/// Moves operations forward while the caller computes.
enum class Progress : std::uint8_t {
  /// Waits and tests on any group do it (DistributedDataParallel makes them between layers). Where
  /// MPI grants MPI_THREAD_MULTIPLE, the process's progress thread also does, after 10 to 170 ms
  /// without such a call.
  poll,
  thread,  ///< that thread all the time; needs MPI_THREAD_MULTIPLE and takes processor time
};

/// [flight]: the flight recorder, a ring of each process's newest operations.
struct FlightOptions {
  std::string dir;  ///< a folder of the node itself; empty: $TMPDIR, else /dev/shm
};
void declare(DeckTable& table, FlightOptions& options);

/// Options of a process group: deadline, contract, progress and shared memory. Equal on all ranks.
struct GroupOptions {
  /// Every wait ends by then. Counted from the moment the wait begins. A hundred years at most:
  /// milliseconds::max() is that.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// The largest count that one MPI call is given (elements of a reduction, bytes of a copy): more
  /// travels in several. Over several nodes, where leaders send: the sum of both. MPI's own limit
  /// is 2^31 - 1; tests lower it.
  std::int64_t max_count = std::int64_t{1} << 30;
  Contract contract = Contract::hash;
  Progress progress = Progress::poll;
  /// Ranks of one machine meet in shared memory. Without it everything goes through MPI, as between
  /// machines.
  bool shared_memory = true;
  /// Sizes of pretended nodes, in rank order, as if each were a separate machine: to try multi-node
  /// algorithms on one machine. Empty: nodes are machines.
  std::vector<std::int64_t> pretended_nodes = {};
  /// MPI is given the addresses of CUDA's device memory, which an MPI built for that takes: for
  /// messages and for collectives that do not reduce. Without it, and in reductions, all of a
  /// device's tensors go through pinned memory of the host.
  bool cuda_aware_mpi = false;
  FlightOptions flight = {};  ///< looked at by the first MPI group of a process
};
void declare(DeckTable& table, GroupOptions& options);

}  // namespace lockstep
