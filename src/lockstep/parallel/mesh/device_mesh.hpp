#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/base/list_view.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// One dimension of a DeviceMesh. `size` -1: the ranks that the other dimensions leave.
struct MeshDim {
  std::string name;
  int size = 1;
  bool operator==(const MeshDim&) const = default;
};

/// The ranks of a group as an array with named dimensions, as PyTorch's init_device_mesh. Each
/// rank has a coordinate in each dimension, and is in one group per dimension: of the ranks that
/// differ from it in that coordinate only.
///   DeviceMesh mesh(group, {{"dp", -1}, {"tp", 2}});  // collective
///   auto sharded = mesh.group("tp");                  // this rank's pair
///   int stage = mesh.local_rank("dp");
/// The last dimension varies fastest over the ranks sorted by node, then by rank: ranks that differ
/// in the last dimension only are on one node if its size divides the ranks of each node. So the
/// dimension with the most traffic comes last, whatever order a launcher gives the ranks. Where a
/// launcher fills nodes one after the other, rank r is at r's place in row-major order.
class DeviceMesh {
 public:
  /// Makes all groups, one a dimension, by one call each; `group` stays as it is. Collective.
  /// Throws InputError on every rank alike: unless `dims` are the same everywhere, for a name that
  /// is empty or used twice, a size below 1 other than one -1, or sizes whose product is not the
  /// number of ranks.
  DeviceMesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshDim> dims);
  /// The same for nodes that the caller knows, the same on every rank: to plan a job's mesh on a
  /// FakeGroup.
  DeviceMesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshDim> dims,
             const NodeLayout& nodes);
  DeviceMesh(const DeviceMesh&) = delete;
  DeviceMesh& operator=(const DeviceMesh&) = delete;

  [[nodiscard]] const std::vector<MeshDim>& dims() const noexcept { return dims_; }
  [[nodiscard]] bool has(std::string_view dim) const noexcept;
  /// Throws InputError naming the existing dimensions, as all functions that take a name.
  [[nodiscard]] int size(std::string_view dim) const { return dims_[index_of(dim)].size; }
  /// This rank's coordinate, and its rank in group(dim).
  [[nodiscard]] int local_rank(std::string_view dim) const { return coordinate_[index_of(dim)]; }
  /// This rank's coordinates in the order of dims().
  [[nodiscard]] const std::vector<int>& coordinate() const noexcept { return coordinate_; }
  /// The rank, in the group that the mesh is over, at this coordinate. Throws InputError outside.
  [[nodiscard]] int rank_at(ListView<int> coordinate) const;
  /// The coordinate of a rank of that group.
  [[nodiscard]] std::vector<int> coordinate_of(int rank) const;

  /// The group that the mesh is over.
  [[nodiscard]] const std::shared_ptr<ProcessGroup>& group() const noexcept { return group_; }
  /// The ranks that differ from this one in `dim` only, by that coordinate; named `dim`.
  [[nodiscard]] const std::shared_ptr<ProcessGroup>& group(std::string_view dim) const;
  /// The ranks that differ from this one in these dimensions only, in row-major order; named
  /// "dp_fsdp" for {"dp", "fsdp"}. Made by the first call, which is collective over the mesh; the
  /// later ones are local. `dims` in the order of dims().
  [[nodiscard]] std::shared_ptr<ProcessGroup> flatten(ListView<std::string_view> dims);

  /// Closes the groups that the mesh made. Collective.
  void close();

 private:
  [[nodiscard]] std::size_t index_of(std::string_view dim) const;
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_group(const std::vector<std::size_t>& dims);

  std::shared_ptr<ProcessGroup> group_;
  std::vector<MeshDim> dims_;
  std::vector<int> rank_of_place_;  ///< place: of the coordinate in row-major order
  std::vector<int> place_of_rank_;
  std::vector<int> coordinate_;
  /// By the dimensions that vary.
  std::map<std::vector<std::size_t>, std::shared_ptr<ProcessGroup>> groups_;
};

/// Throws InputError for a name that is empty or used twice, and for a size below 1 other than one
/// -1. Local.
void validate(const std::vector<MeshDim>& dims);

/// The dimensions on `ranks` ranks, with the ranks that are left in place of a -1. Throws
/// InputError as DeviceMesh does. Local.
[[nodiscard]] std::vector<MeshDim> fit_mesh(std::vector<MeshDim> dims, int ranks);

/// "dp=2 tp=4".
[[nodiscard]] std::string to_string(const std::vector<MeshDim>& dims);

}  // namespace lockstep
