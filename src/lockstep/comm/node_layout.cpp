#include <lockstep/comm/node_layout.hpp>

#include <algorithm>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {

NodeLayout::NodeLayout(const std::vector<std::string>& host_of_rank) {
  for (const std::string& host : host_of_rank) {
    const auto node = std::ranges::find(hosts_, host) - hosts_.begin();
    if (hosts_.size() == static_cast<std::size_t>(node)) {
      hosts_.push_back(host);
      ranks_.emplace_back();
    }
    ranks_[static_cast<std::size_t>(node)].push_back(static_cast<int>(node_of_.size()));
    node_of_.push_back(static_cast<int>(node));
  }
}

int NodeLayout::local_rank(int rank) const {
  const auto& ranks = ranks_on(node_of(rank));
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

NodeLayout node_layout(ProcessGroup& group) {
  return NodeLayout(all_gather_object(group, host_name()));
}

}  // namespace lockstep
