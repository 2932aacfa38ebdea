#pragma once
#include <vector>

#include <mpi.h>
#include <lockstep/comm/mpi/ranks.hpp>
#include <lockstep/comm/mpi/receive.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/short_list.hpp>

namespace lockstep {

/// The communicator and ranks of an operation.
struct MpiPlace {
  const MpiRanks* ranks;
  std::int64_t max_count;  ///< GroupOptions
  bool probes;             ///< must_probe()
};

/// One operation in MPI: its requests, the messages it waits for, and the memory that MPI reads
/// until they complete.
struct MpiCalls {
  ShortList<MPI_Request, 4> requests;
  ShortList<MpiReceive, 1> receives;
  std::vector<int> counts, displacements;  ///< of the v collectives, in MPI's units
  Tensor arrived;  ///< of a reduction by messages: the others' input, until it is summed
  Tensor sent;     ///< ... and the sum that goes to the root
};

/// Makes the non-blocking MPI calls of an operation on host tensors that MPI can reduce; their
/// order is the same on every rank. Small collectives are one MPI call. Data longer than max_count
/// travels in pieces: reductions and broadcasts in several calls, everything else in several calls
/// or in messages with a derived datatype. Among ranks that have no communicator collectives are
/// messages from each rank to each. Where messages must be probed, receives are only noted in
/// `calls`. Throws OperationFailure, as the others do; calls made before are in `calls`.
void start_calls(const Operation& operation, const MpiPlace& place, MpiCalls& calls);

/// Called once all of these have completed and something has `arrived`: false if that was all; else
/// the rest has been started.
[[nodiscard]] bool go_on_with_calls(const Operation& operation, const MpiPlace& place,
                                    MpiCalls& calls);

/// True if all awaited messages have arrived. `pending` are the group's.
[[nodiscard]] bool receives_over(MpiCalls& calls, const MpiPlace& place, PendingReceives& pending);
/// Whether all requests are over.
[[nodiscard]] bool requests_over(MpiCalls& calls);

}  // namespace lockstep
