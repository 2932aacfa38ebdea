#include <lockstep/comm/mpi_group.hpp>

#include <lockstep/nn/device_guard.hpp>

#include "asked_for_device.hpp"
#include "ranks.hpp"
#include "world_size.hpp"

namespace lockstep::test {

std::vector<int> rank_counts() { return world_size(); }

void on_ranks(int, const RankBody& body) {
  const auto group = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(60)});
  const nn::DeviceGuard modules(asked_for_device());
  body(group);
  group->close();
}

}  // namespace lockstep::test
