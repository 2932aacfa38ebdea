// Rank 1 is stopped where only MPI_Finalize is left. CTest expects this job to fail, soon, with a
// sentence of the other's: no call of ours is there to time out.
#include <csignal>

#include <comm/programs/program.hpp>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  MpiSession session(argc, argv, std::chrono::seconds(1));
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int rank = group->rank();
  group->close();
  if (rank == 1) std::raise(SIGSTOP);
  return 0;
}
