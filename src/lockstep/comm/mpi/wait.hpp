#pragma once
#include <chrono>
#include <functional>
#include <string>

#include <mpi.h>

namespace lockstep {

/// How set-up waits: no call of it may block without a deadline.
class MpiWait {
 public:
  /// `doing` is what the other ranks must be doing too, for the message: "make_mpi_group".
  MpiWait(std::string speaker, std::string doing, std::chrono::milliseconds timeout)
      : speaker_(std::move(speaker)), doing_(std::move(doing)), timeout_(timeout) {}

  /// Returns when the request is over. Throws TimeoutError naming what the others have not done,
  /// CommError if MPI fails.
  void operator()(MPI_Request request) const;
  /// The same for anything that can be looked at.
  void until(const std::function<bool()>& over) const;

 private:
  std::string speaker_, doing_;
  std::chrono::milliseconds timeout_;
};

}  // namespace lockstep
