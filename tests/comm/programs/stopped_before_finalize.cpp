// Rank 1 is stopped with only MPI_Finalize left: no Lockstep call can time out there
// (job_ends_test.cpp). Argument: a file to mark the moment.
#include <csignal>

#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  MpiSession session(argc, argv, std::chrono::seconds(4));  // for MPI_Init too
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int rank = group->rank();
  group->close();
  if (rank == 1) {
    test::mark(argv[1]);
    std::raise(SIGSTOP);
  }
  return 0;
}
