#include <lockstep/train/launch/shared_devices.hpp>

#include <map>
#include <utility>

#include <lockstep/tensor/device.hpp>

namespace lockstep::train {

std::vector<SharedDevice> shared_devices(const NodeLayout& layout,
                                         const std::vector<std::string>& device_of_rank) {
  std::map<std::pair<int, std::string>, std::vector<int>> users;
  const std::string host = to_string(Device{});
  for (std::size_t r = 0; r < device_of_rank.size(); ++r) {
    const std::string& device = device_of_rank[r];
    const int rank = static_cast<int>(r);
    if (!device.empty() && device != host) users[{layout.node_of(rank), device}].push_back(rank);
  }
  std::vector<SharedDevice> shared;
  for (auto& [device, ranks] : users) {
    if (ranks.size() > 1) shared.push_back({device.first, device.second, std::move(ranks)});
  }
  return shared;
}

}  // namespace lockstep::train
