#include <cstdio>
#include <lockstep/comm/mpi_group.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  {
    // Made once, by all ranks, used in every step.
    const Tensor field = group->shared_buffer({1 << 20}, DType::f32);
    for (int step = 1; step <= 10; ++step) {
      field.fill(step);
      group->all_reduce(field, ReduceOp::avg).wait();
    }
    if (group->rank() == 0) std::printf("mean of the last step %g\n", field.to_vector<float>()[0]);
  }
  group->close();
}
