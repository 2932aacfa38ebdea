#include <comm/backend.hpp>
#include <lockstep/comm/mpi_group.hpp>

namespace lockstep::test {

const bool ranks_share_memory = true;

void on_every_group(const Claim& claim) {
  static const auto group = make_mpi_group(MPI_COMM_WORLD, usual_options);
  claim(*group);
}

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  MPI_Barrier(MPI_COMM_WORLD);  // ranks leave a broken group one by one
  claim(*make_mpi_group(MPI_COMM_WORLD, options));
}

}  // namespace lockstep::test
