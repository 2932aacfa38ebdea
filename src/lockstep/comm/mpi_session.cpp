#include <exception>

#include <lockstep/comm/mpi_group.hpp>

namespace lockstep {

MpiSession::MpiSession(int& argc, char**& argv) : exceptions_(std::uncaught_exceptions()) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) return;
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  owns_mpi_ = true;
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // MPI_Finalize waits for peers, which may be waiting for this rank in a collective it will never
  // enter: a rank on its way out with an exception leaves the job's end to the launcher.
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  if (owns_mpi_ && !finalized && !unwinding) MPI_Finalize();
}

}  // namespace lockstep
