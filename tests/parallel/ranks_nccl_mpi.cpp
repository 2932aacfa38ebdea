// An nccl group over the ranks started by mpiexec, with a stand-in for NCCL: models are on
// simulated devices if requested.
#include <gtest/gtest.h>
#include <comm/nccl/stand_in.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/nccl/group.hpp>
#include <lockstep/nn/device_guard.hpp>

#include "asked_for_device.hpp"
#include "ranks.hpp"
#include "world_size.hpp"

namespace lockstep::test {

std::vector<int> rank_counts() { return world_size(); }

void on_ranks(int, const RankBody& body) {
  const GroupOptions options{.timeout = std::chrono::seconds(60)};
  const auto nccl = std::make_shared<StandIn>();
  const auto group =
      make_nccl_group(nccl, make_mpi_group(MPI_COMM_WORLD, options), asked_for_device(), options);
  const nn::DeviceGuard modules(asked_for_device());
  body(group);
  group->close();
  for (const auto& violation : nccl->violations()) ADD_FAILURE() << violation;
}

}  // namespace lockstep::test
