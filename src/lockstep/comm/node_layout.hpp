#pragma once
#include <string>
#include <vector>

namespace lockstep {

class ProcessGroup;

/// The machines of a group and the ranks on each. Ranks whose machines have the same name share a
/// node, as MPICH also decides; a launcher's environment is never used.
class NodeLayout {
 public:
  NodeLayout() = default;
  /// From the name of each rank's machine, in rank order.
  explicit NodeLayout(const std::vector<std::string>& host_of_rank);

  /// Distinct machines, in the order of their first ranks.
  [[nodiscard]] const std::vector<std::string>& hosts() const noexcept { return hosts_; }
  /// Ranks of a machine, ascending; `node` is an index of hosts().
  [[nodiscard]] const std::vector<int>& ranks_on(int node) const {
    return ranks_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::string& host_of(int rank) const {
    return hosts_[static_cast<std::size_t>(node_of(rank))];
  }
  /// The rank's number among the ranks of its machine, and their count.
  [[nodiscard]] int local_rank(int rank) const;
  [[nodiscard]] int local_size(int rank) const {
    return static_cast<int>(ranks_on(node_of(rank)).size());
  }
  /// One rank of each machine, its first, represents it.
  [[nodiscard]] bool is_leader(int rank) const { return ranks_on(node_of(rank)).front() == rank; }

 private:
  std::vector<std::string> hosts_;
  std::vector<std::vector<int>> ranks_;  // by node
  std::vector<int> node_of_;             // by rank
};

/// The layout of a group, on every rank. Collective.
[[nodiscard]] NodeLayout node_layout(ProcessGroup& group);

}  // namespace lockstep
