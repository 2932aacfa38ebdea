// MPI alone: every rank is a separate node, as with a /dev/shm that is too small.
#include <comm/backend.hpp>
#include <lockstep/comm/mpi_group.hpp>

namespace lockstep::test {
namespace {

GroupOptions without_shared_memory(GroupOptions options) {
  options.shared_memory = false;
  return options;
}

}  // namespace

bool share_memory(int a, int b) { return a == b; }

void on_every_group(const Claim& claim) {
  static const auto group = make_mpi_group(MPI_COMM_WORLD, without_shared_memory(usual_options));
  claim(*group);
}

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  MPI_Barrier(MPI_COMM_WORLD);  // ranks leave a broken group one by one
  claim(*make_mpi_group(MPI_COMM_WORLD, without_shared_memory(options)));
}

}  // namespace lockstep::test
