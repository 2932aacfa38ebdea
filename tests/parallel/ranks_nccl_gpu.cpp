// An nccl group over the ranks started by mpiexec, with models on a GPU that they may share:
// NCCL_HOSTID tells them apart.
#include <cstdlib>
#include <string>

#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/nn/device_guard.hpp>

#include "ranks.hpp"
#include "world_size.hpp"

namespace lockstep::test {

std::vector<int> rank_counts() { return world_size(); }

void on_ranks(int, const RankBody& body) {
  constexpr Device gpu{DeviceType::cuda, 0};
  const GroupOptions options{.timeout = std::chrono::seconds(20)};
  auto control = make_mpi_group(MPI_COMM_WORLD, options);
  setenv("NCCL_HOSTID", std::to_string(control->rank()).c_str(), 1);
  const auto group = make_nccl_group(std::move(control), gpu, options);
  const nn::DeviceGuard modules(gpu);
  body(group);
  group->close();
}

}  // namespace lockstep::test
