#include <cstdio>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <string>
#include <vector>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  const int rank = world->rank();
  if (world->size() < 2) {
    std::puts("start at least 2 ranks: mpiexec -n 2 groups");
    world->close();
    return 2;
  }
  std::string said = "rank " + std::to_string(rank) + ":";

  // The same list on every rank of the world; for those that are not in it, rank() is -1.
  const auto pair = world->new_group({1, 0});
  if (pair->rank() >= 0) said += " number " + std::to_string(pair->rank()) + " of the pair,";

  // Ranks that name the same colour become a group, ordered by the key.
  const auto parity = world->split(rank % 2, rank);
  const auto sum = Tensor::full({1}, rank);
  const auto highest = Tensor::full({1}, rank);
  Work in_parity = parity->all_reduce(sum, ReduceOp::sum);  // both are in flight together
  Work in_world = world->all_reduce(highest, ReduceOp::max);
  in_parity.wait();
  in_world.wait();
  said += " sum of its parity " + std::to_string(static_cast<int>(sum.item())) + ", highest rank " +
          std::to_string(static_cast<int>(highest.item()));

  // Many small operations, one wait.
  std::vector<Tensor> parts(3);
  Coalescing batch(*world);
  for (Tensor& part : parts) {
    part = Tensor::full({1}, 1);
    static_cast<void>(world->all_reduce(part, ReduceOp::sum));
  }
  batch.end().wait();
  said += ", ranks " + std::to_string(static_cast<int>(parts[2].item()));

  // Bytes of any length: settings, names, serialised objects.
  const std::string settings = broadcast_object(*world, rank == 0 ? "lr = 0.1" : "", 0);
  said += ", " + settings + "\n";
  for (const std::string& line : gather_object(*world, said, 0)) std::printf("%s", line.c_str());

  pair->close();
  parity->close();
  world->close();
}
