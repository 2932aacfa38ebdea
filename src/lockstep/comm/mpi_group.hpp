#pragma once
#include <chrono>
#include <memory>

#include <mpi.h>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A group over `comm`, which is duplicated: the caller's handle and its error handler
/// are left alone, its attributes' copy functions run as for any MPI_Comm_dup. Works at any thread
/// level of MPI; below MPI_THREAD_MULTIPLE all calls must come from the thread that initialised MPI
/// (with SERIALIZED: from one thread at a time). Collective over `comm`. Throws CommError if MPI is
/// not initialised or already finalised, or if `comm` is null or an intercommunicator; TimeoutError
/// if not every rank of `comm` has called by the deadline.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_mpi_group(MPI_Comm comm,
                                                           const GroupOptions& options = {});

/// Initialises MPI (MPI_THREAD_MULTIPLE where MPI grants it) unless it is initialised already, and
/// finalises it at the end only in the first case. For programs that leave MPI to Lockstep; never
/// made behind the user's back. Sets MPI_ERRORS_RETURN on MPI_COMM_WORLD: with another error
/// handler, MPICH would end the job at a message that is too long, so groups would have to receive
/// messages in a slower way.
/// A session destroyed by an exception leaves MPI as it is: MPI_Finalize would wait for peers that
/// wait for this rank. Return a non-zero code from main() then, and the launcher ends the job.
class MpiSession {
 public:
  /// With a deadline: if MPI_Init, or MPI_Finalize at the end, does not return in time because
  /// another process has not called it, the process reports that on stderr and ends with exit code
  /// 3. This is for programs, not for libraries.
  MpiSession(int& argc, char**& argv, std::chrono::milliseconds deadline = {});
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owns_mpi_ = false;
  int exceptions_;  // in flight when the session began
  std::chrono::milliseconds deadline_;
};

}  // namespace lockstep
