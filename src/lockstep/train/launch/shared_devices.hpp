#pragma once
#include <string>
#include <vector>

#include <lockstep/comm/node_layout.hpp>

namespace lockstep::train {

/// A device that several ranks of a machine use.
struct SharedDevice {
  int node;  ///< an index of NodeLayout::hosts()
  std::string name;
  std::vector<int> ranks;
};

/// By machine, then by name. `device_of_rank`: names that are unique within a machine; empty, or
/// the host's: none.
[[nodiscard]] std::vector<SharedDevice> shared_devices(
    const NodeLayout& layout, const std::vector<std::string>& device_of_rank);

}  // namespace lockstep::train
