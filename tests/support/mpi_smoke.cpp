// Plain MPI without Lockstep: if this fails, the launcher or MPI is broken, not the library.
// Started by CTest on 2 ranks.
#include <cstdio>

#include <mpi.h>

int main(int argc, char** argv) {
  constexpr int expected_size = 2;
  MPI_Init(&argc, &argv);
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int mine = rank + 1;
  int sum = -1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const bool good = size == expected_size && sum == size * (size + 1) / 2;
  if (!good) {
    std::fprintf(
        stderr,
        "rank %d of %d: expected a world of %d ranks and a sum of %d, got a sum of %d. The "
        "launcher and the MPI library do not fit together: is mpiexec from another MPI?\n",
        rank, size, expected_size, expected_size * (expected_size + 1) / 2, sum);
  }
  MPI_Finalize();
  return good ? 0 : 1;
}
