#pragma once
#include <vector>

#include <mpi.h>

namespace lockstep::test {

/// rank_counts() of the ranks started by mpiexec: their number alone.
inline std::vector<int> world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return {size};
}

}  // namespace lockstep::test
