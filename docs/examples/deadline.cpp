#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <thread>

using namespace lockstep;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(2)});
  try {
    const auto t = Tensor::zeros({1000});
    group->all_reduce(t, ReduceOp::sum).wait();
    if (group->rank() == 0) {  // an error of this rank, which the others cannot see
      std::this_thread::sleep_for(std::chrono::seconds(30));
    }
    group->all_reduce(t, ReduceOp::sum).wait();
  } catch (const CommError& error) {  // TimeoutError is one
    std::fprintf(stderr, "%s\n", error.what());
    // mpiexec (hydra) drops what it has not read when it hears of the end.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(MPI_COMM_WORLD, 3);  // this program's decision; the library only throws
  }
  MPI_Finalize();
}
