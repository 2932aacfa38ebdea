#include <lockstep/comm/mpi_group.hpp>

#include "ranks.hpp"

namespace lockstep::test {

std::vector<int> rank_counts() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return {size};
}

void on_ranks(int, const RankBody& body) {
  const auto group = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(60)});
  body(group);
  group->close();
}

}  // namespace lockstep::test
