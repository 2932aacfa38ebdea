// Several nodes with several ranks each, pretended on one machine: LOCKSTEP_TEST_NODES gives their
// sizes, "2 3".
#include <comm/backend.hpp>
#include <cstdlib>
#include <lockstep/comm/mpi_group.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

std::vector<std::int64_t> node_sizes() {
  const char* text = std::getenv("LOCKSTEP_TEST_NODES");
  std::istringstream words(text ? text : "");
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 0; words >> size;) sizes.push_back(size);
  if (sizes.size() < 2) {
    throw std::runtime_error("LOCKSTEP_TEST_NODES must hold the sizes of two nodes or more");
  }
  return sizes;
}

int node_of(int rank) {
  int node = 0;
  for (const std::int64_t size : node_sizes()) {
    if (rank < size) return node;
    rank -= static_cast<int>(size);
    ++node;
  }
  return node;
}

GroupOptions on_nodes(GroupOptions options) {
  options.pretended_nodes = node_sizes();
  return options;
}

}  // namespace

bool share_memory(int a, int b) { return node_of(a) == node_of(b); }

void on_every_group(const Claim& claim) {
  static const auto group = make_mpi_group(MPI_COMM_WORLD, on_nodes(usual_options));
  claim(*group);
}

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  MPI_Barrier(MPI_COMM_WORLD);  // ranks leave a broken group one by one
  claim(*make_mpi_group(MPI_COMM_WORLD, on_nodes(options)));
}

}  // namespace lockstep::test
