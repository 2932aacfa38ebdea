#pragma once
#include <memory>
#include <string>
#include <vector>

#include <lockstep/parallel/mesh/device_mesh.hpp>

#include "../asked_for_device.hpp"
#include "../ranks.hpp"

// Numbers of ranks that make meshes of two and three dimensions.

namespace lockstep::test {

/// The job's under mpiexec, else 4, 6 and 8 threads; 4 under a sanitizer and on simulated devices,
/// which are slow.
inline std::vector<int> mesh_rank_counts() {
  const std::vector<int> counts = rank_counts();
  if (counts.size() == 1) return counts;
  const bool is_slow = counts.size() < 4 || asked_for_device() != Device{};
  return is_slow ? std::vector{4} : std::vector{4, 6, 8};
}

/// Calls `body` with each of these meshes that fits the ranks.
template <class Body>
void for_each_mesh(const std::shared_ptr<ProcessGroup>& group,
                   const std::vector<std::vector<MeshDim>>& meshes, const Body& body) {
  for (const auto& dims : meshes) {
    int ranks = 1;
    for (const MeshDim& dim : dims) ranks *= dim.size;
    if (ranks != group->size()) continue;
    DeviceMesh mesh(group, dims);
    body(mesh);
    mesh.close();
  }
}

}  // namespace lockstep::test
