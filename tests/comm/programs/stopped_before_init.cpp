// Rank 1 is stopped before it calls MPI_Init (job_ends_test.cpp). Argument: a file to mark the
// moment.
#include <csignal>
#include <cstdlib>

#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>

int main(int argc, char** argv) {
  const char* rank = std::getenv("PMI_RANK");
  if (rank && std::atoi(rank) == 1) {
    lockstep::test::mark(argv[1]);
    std::raise(SIGSTOP);
  }
  const lockstep::MpiSession session(argc, argv, std::chrono::seconds(4));
  return 0;
}
