#include <comm/backend.hpp>
#include <lockstep/comm/mpi_group.hpp>

namespace lockstep::test {

void on_every_group(const std::function<void(ProcessGroup&)>& claim) {
  const auto group = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(20)});
  claim(*group);
  group->close();
}

}  // namespace lockstep::test
