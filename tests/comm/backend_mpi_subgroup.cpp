// A group split from another one, with its ranks in reverse order: it has no communicator of its
// own. LOCKSTEP_TEST_NODES pretends nodes ("2 3"); without shared memory for "unshared".
#include <comm/backend.hpp>
#include <cstdlib>
#include <lockstep/comm/mpi_group.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

std::string nodes_asked_for() {
  const char* text = std::getenv("LOCKSTEP_TEST_NODES");
  return text ? text : "";
}

GroupOptions on_nodes(GroupOptions options) {
  options.shared_memory = nodes_asked_for() != "unshared";
  std::istringstream words(nodes_asked_for());
  for (std::int64_t size = 0; words >> size;) options.pretended_nodes.push_back(size);
  return options;
}

/// Kept open: a test on its group must not affect this one.
std::vector<std::shared_ptr<ProcessGroup>>& parents() {
  static std::vector<std::shared_ptr<ProcessGroup>> all;
  return all;
}

std::shared_ptr<ProcessGroup> make_group(const GroupOptions& options) {
  const auto& parent = parents().emplace_back(make_mpi_group(MPI_COMM_WORLD, on_nodes(options)));
  return parent->split(0, -parent->rank());
}

int node_of(int rank) {
  const auto& parent = *parents().back();
  const std::vector<std::int64_t> sizes = on_nodes({}).pretended_nodes;
  int place = parent.size() - 1 - rank, node = 0;
  while (node < static_cast<int>(sizes.size()) && place >= sizes[static_cast<std::size_t>(node)]) {
    place -= static_cast<int>(sizes[static_cast<std::size_t>(node++)]);
  }
  return node;
}

}  // namespace

bool share_memory(int a, int b) {
  return a == b || (nodes_asked_for() != "unshared" && node_of(a) == node_of(b));
}

void on_every_group(const Claim& claim) {
  static const auto group = make_group(usual_options);
  claim(*group);
}

void on_every_new_group(const Claim& claim, const GroupOptions& options) {
  MPI_Barrier(MPI_COMM_WORLD);  // ranks leave a broken group one by one
  claim(*make_group(options));
}

}  // namespace lockstep::test
