#pragma once
#include <chrono>
#include <functional>
#include <string>

#include <mpi.h>

namespace lockstep {

/// How set-up waits: no call of it may block without a deadline.
class MpiWait {
 public:
  /// `rank_name` names this `rank` in messages. `doing` is the call that the other ranks must make
  /// too: "make_mpi_group".
  MpiWait(int rank, std::string rank_name, std::string doing, std::chrono::milliseconds timeout)
      : rank_(rank),
        rank_name_(std::move(rank_name)),
        doing_(std::move(doing)),
        timeout_(timeout) {}

  /// Returns when the request is over. Throws TimeoutError with the call that the others have not
  /// made, CommError if MPI fails.
  void operator()(MPI_Request request) const;
  /// The same for anything that can be looked at.
  void until(const std::function<bool()>& over) const;

 private:
  int rank_;
  std::string rank_name_, doing_;
  std::chrono::milliseconds timeout_;
};

}  // namespace lockstep
