#include <cstdio>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/lockstep.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int rank = group->rank();

  const NodeLayout nodes = node_layout(*group);
  const int node = nodes.node_of(rank), local_rank = nodes.local_rank(rank);

  // The ranks of this node, and the first rank of each node.
  const auto on_my_node = group->split(node, rank);
  const auto leaders = group->split(local_rank == 0 ? 0 : -1, rank);

  char line[160];
  std::snprintf(line, sizeof line, "rank %d of %d: node %d of %zu, local rank %d of %d%s\n", rank,
                group->size(), node, nodes.hosts().size(), local_rank, on_my_node->size(),
                leaders->rank() >= 0 ? ", leader" : "");
  for (const std::string& text : gather_object(*group, std::string(line), 0))
    std::printf("%s", text.c_str());

  leaders->close();
  on_my_node->close();
  group->close();
}
