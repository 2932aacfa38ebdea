#include <lockstep/train/launch/launch.hpp>

#include <algorithm>

#include <lockstep/comm/agreement.hpp>

namespace lockstep::train {

int Launch::cores_owned(int of) const {
  const std::vector<int>& mask = info(of).cores;
  const auto sharing = std::ranges::count_if(layout.ranks_on(layout.node_of(of)),
                                             [&](int other) { return info(other).cores == mask; });
  return std::max(1, static_cast<int>(mask.size()) / static_cast<int>(sharing));
}

bool Launch::is_one_process() const {
  const auto beside_first = [&](const RankInfo& info) {
    return info.pid == infos.front().pid && info.host == infos.front().host;
  };
  return size() > 1 && infos.front().pid != 0 && std::ranges::all_of(infos, beside_first);
}

Launch make_launch(std::vector<RankInfo> infos, int rank) {
  std::vector<std::string> hosts;
  hosts.reserve(infos.size());
  for (const RankInfo& info : infos) hosts.push_back(info.host);
  return {.layout = NodeLayout(hosts), .infos = std::move(infos), .rank = rank};
}

Launch inspect_launch(ProcessGroup& group, const std::string& deck_hash, Device device) {
  return make_launch(agree(group, [&] { return local_rank_info(deck_hash, device); }),
                     group.rank());
}

}  // namespace lockstep::train
