#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi/launcher.hpp>
#include <lockstep/comm/mpi_group.hpp>

namespace lockstep {
namespace {

/// Ends the process unless destroyed by the deadline, if there is one. Nothing else can end it
/// while `call` waits for other processes.
class Guard {
 public:
  Guard(const char* call, const char* remedy, std::chrono::milliseconds deadline)
      : call_(call), remedy_(remedy) {
    if (deadline.count() <= 0) return;
    thread_ =
        std::jthread([this, deadline](const std::stop_token& over) { watch(over, deadline); });
  }

 private:
  void watch(const std::stop_token& over, std::chrono::milliseconds deadline) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait_for(lock, over, bounded(deadline), [] { return false; });
    if (over.stop_requested()) return;
    const std::string standing = standing_ranks_here();
    fmt::print(stderr, "process {} on {}: {} has not returned after {:.1f} s: {}. {}\n", getpid(),
               host_name(), call_, Seconds(deadline).count(),
               standing.empty() ? "another process of the job has not called it, or its node "
                                  "cannot be reached"
                                : standing,
               remedy_);
    std::fflush(stderr);
    wait_until_stderr_is_read();
    ask_launcher_to_end_job(ExitCode::communication);
    _exit(static_cast<int>(ExitCode::communication));
  }

  const char *call_, *remedy_;
  std::jthread thread_;
};

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv, std::chrono::milliseconds deadline)
    : exceptions_(std::uncaught_exceptions()), deadline_(deadline) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) return;
  const Guard guard("MPI_Init",
                    "Look at the launcher's output and at the other nodes. `lockstep doctor` under "
                    "the same launcher prints more.",
                    deadline);
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  owns_mpi_ = true;
  // MPICH reports the errors of MPI_Test, such as a message that is too long, to the error handler
  // of MPI_COMM_WORLD instead of the request's communicator. Its default would end the job.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // MPI_Finalize waits for peers, which may wait for this rank in a collective that it will never
  // enter. A rank that leaves with an exception lets the launcher end the job.
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  if (!owns_mpi_ || finalized || unwinding) return;
  std::optional<Guard> guard;
  try {
    guard.emplace("MPI_Finalize",
                  "This process has finished; look for a process of the job that is stopped or "
                  "still computes.",
                  deadline_);
  } catch (const std::system_error&) {
    // No thread can be started: MPI_Finalize has no deadline then.
  }
  MPI_Finalize();
}

}  // namespace lockstep
