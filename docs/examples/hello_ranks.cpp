#include <cstdio>
#include <lockstep/lockstep.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);  // MPI_Init, and MPI_Finalize at the end
  const auto group = make_mpi_group(MPI_COMM_WORLD);

  const Tensor tensor = Tensor::full({2}, group->rank());
  group->all_reduce(tensor, ReduceOp::sum).wait();
  if (group->rank() == 0)
    std::printf("%d ranks, sum of their numbers %g\n", group->size(), tensor[0].item());
  group->close();
}
