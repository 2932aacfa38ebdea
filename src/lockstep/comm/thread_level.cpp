#include <lockstep/comm/thread_level.hpp>

#include <mpi.h>

#include <string_view>

namespace lockstep {

bool threads_may_communicate(const ProcessGroup& group) {
  const std::string_view backend = group.backend();
  if (backend == "threads" || backend == "fake") return true;
  int running = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&running);
  if (!running) return true;  // an nccl group whose ranks are threads
  return MPI_Query_thread(&level) == MPI_SUCCESS && level >= MPI_THREAD_MULTIPLE;
}

}  // namespace lockstep
