#include <lockstep/parallel/mesh/device_mesh.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep {
namespace {

/// Throws InputError, on every rank, unless all of them pass the same dimensions.
void expect_same(ProcessGroup& group, const std::vector<MeshDim>& dims) {
  const auto all = agree(group, [&] { return to_string(dims); });
  const auto other = std::ranges::find_if(all, [&](const auto& text) { return text != all[0]; });
  if (other == all.end()) return;
  throw InputError(fmt::format(
      "a mesh has the same dimensions on all ranks, but rank 0 passed {} and rank {} passed {}",
      all[0], other - all.begin(), *other));
}

/// Ranks by node, then by number.
std::vector<int> ranks_by_node(const NodeLayout& nodes) {
  std::vector<int> ranks;
  for (int node = 0; node < static_cast<int>(nodes.hosts().size()); ++node) {
    const auto& on_node = nodes.ranks_on(node);
    ranks.insert(ranks.end(), on_node.begin(), on_node.end());
  }
  return ranks;
}

}  // namespace

void validate(const std::vector<MeshDim>& dims) {
  bool has_rest = false;
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    if (dim->name.empty()) {
      throw InputError(fmt::format("mesh {}: a dimension has no name", to_string(dims)));
    }
    if (std::any_of(dims.begin(), dim, [&](const MeshDim& d) { return d.name == dim->name; })) {
      throw InputError(
          fmt::format("mesh {}: two dimensions are named {}", to_string(dims), dim->name));
    }
    const bool is_rest = dim->size == -1 && !std::exchange(has_rest, true);
    if (dim->size >= 1 || is_rest) continue;
    throw InputError(fmt::format(
        "mesh {}: the size of {} must be at least 1, or -1 in one dimension, which then takes "
        "the remaining ranks",
        to_string(dims), dim->name));
  }
}

std::vector<MeshDim> fit_mesh(std::vector<MeshDim> dims, int ranks) {
  if (dims.empty()) throw InputError("a mesh needs at least one dimension");
  validate(dims);
  const std::string asked = to_string(dims);
  MeshDim* rest = nullptr;
  std::int64_t product = 1;
  for (MeshDim& dim : dims) {
    if (dim.size == -1) rest = &dim;
    if (dim.size > 0) product *= dim.size;
    if (product > ranks) break;
  }
  if (rest && ranks % product == 0) {
    rest->size = static_cast<int>(ranks / product);
    product = ranks;
  }
  if (product == ranks) return dims;
  throw InputError(
      fmt::format("mesh {}: the sizes do not fit {} rank{}: {}. Start another number of ranks, or "
                  "change a size",
                  asked, ranks, ranks == 1 ? "" : "s",
                  rest ? fmt::format("they do not divide by {}", product)
                       : fmt::format("their product is {}", product)));
}

DeviceMesh::DeviceMesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshDim> dims)
    : DeviceMesh(group, std::move(dims),
                 node_layout(*expect_given("DeviceMesh", "the group", group))) {}

DeviceMesh::DeviceMesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshDim> dims,
                       const NodeLayout& nodes)
    : group_(expect_given("DeviceMesh", "the group", std::move(group))) {
  expect_same(*group_, dims);
  dims_ = fit_mesh(std::move(dims), group_->size());
  rank_of_place_ = ranks_by_node(nodes);
  place_of_rank_.resize(rank_of_place_.size());
  for (std::size_t place = 0; place < rank_of_place_.size(); ++place) {
    place_of_rank_[static_cast<std::size_t>(rank_of_place_[place])] = static_cast<int>(place);
  }
  coordinate_ = coordinate_of(group_->rank());
  for (std::size_t dim = 0; dim < dims_.size(); ++dim) groups_[{dim}] = make_group({dim});
}

bool DeviceMesh::has(std::string_view dim) const noexcept {
  return std::ranges::find(dims_, dim, &MeshDim::name) != dims_.end();
}

std::size_t DeviceMesh::index_of(std::string_view dim) const {
  const auto found = std::ranges::find(dims_, dim, &MeshDim::name);
  if (found == dims_.end()) {
    throw InputError(fmt::format("there is no dimension {} in the mesh {}", dim, to_string(dims_)));
  }
  return static_cast<std::size_t>(found - dims_.begin());
}

int DeviceMesh::rank_at(ListView<int> coordinate) const {
  std::size_t place = 0;
  bool fits = coordinate.size() == dims_.size();
  for (std::size_t dim = 0; fits && dim < dims_.size(); ++dim) {
    fits = coordinate[dim] >= 0 && coordinate[dim] < dims_[dim].size;
    place = place * static_cast<std::size_t>(dims_[dim].size) +
            static_cast<std::size_t>(coordinate[dim]);
  }
  if (!fits) {
    throw InputError(fmt::format("there is no coordinate [{}] in the mesh {}",
                                 fmt::join(coordinate, ", "), to_string(dims_)));
  }
  return rank_of_place_[place];
}

std::vector<int> DeviceMesh::coordinate_of(int rank) const {
  if (rank < 0 || rank >= group_->size()) {
    throw InputError(fmt::format("there is no rank {} in the mesh {}", rank, to_string(dims_)));
  }
  int place = place_of_rank_[static_cast<std::size_t>(rank)];
  std::vector<int> coordinate(dims_.size());
  for (std::size_t dim = dims_.size(); dim-- > 0;) {
    coordinate[dim] = place % dims_[dim].size;
    place /= dims_[dim].size;
  }
  return coordinate;
}

std::shared_ptr<ProcessGroup> DeviceMesh::make_group(const std::vector<std::size_t>& dims) {
  // Which list a place is in: by its coordinates in the other dimensions.
  std::map<std::vector<int>, std::vector<int>> lists;
  for (const int rank : rank_of_place_) {
    std::vector<int> others = coordinate_of(rank);
    for (const std::size_t dim : dims) others[dim] = 0;
    lists[others].push_back(rank);
  }
  std::vector<std::vector<int>> ranks;
  for (auto& [coordinate, list] : lists) ranks.push_back(std::move(list));
  auto made = group_->new_subgroups_by_enumeration(ranks);
  std::vector<std::string_view> names;
  for (const std::size_t dim : dims) names.emplace_back(dims_[dim].name);
  made->set_name(fmt::format("{}", fmt::join(names, "_")));
  return made;
}

const std::shared_ptr<ProcessGroup>& DeviceMesh::group(std::string_view dim) const {
  const auto found = groups_.find({index_of(dim)});
  if (found == groups_.end()) throw Error("DeviceMesh::group: the mesh was closed");
  return found->second;
}

std::shared_ptr<ProcessGroup> DeviceMesh::flatten(ListView<std::string_view> dims) {
  std::vector<std::size_t> key;
  for (const std::string_view dim : dims) key.push_back(index_of(dim));
  if (key.empty() || !std::ranges::is_sorted(key, std::ranges::less_equal())) {
    throw InputError(
        fmt::format("flatten takes one or more different dimensions in the order of "
                    "the mesh {}, not {}",
                    to_string(dims_), fmt::join(dims, ", ")));
  }
  if (const auto made = groups_.find(key); made != groups_.end()) return made->second;
  return groups_[key] = make_group(key);
}

void DeviceMesh::close() {
  for (const auto& [dims, group] : groups_) group->close();
  groups_.clear();
}

std::string to_string(const std::vector<MeshDim>& dims) {
  std::vector<std::string> texts;
  for (const MeshDim& dim : dims) texts.push_back(fmt::format("{}={}", dim.name, dim.size));
  return fmt::format("{}", fmt::join(texts, " "));
}

}  // namespace lockstep
