#include <lockstep/comm/mpi/node.hpp>

#include <sys/stat.h>

#include <algorithm>

#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi/all_gather_values.hpp>
#include <lockstep/comm/mpi/shared_segment.hpp>

namespace lockstep {
namespace {

/// Equal for ranks that can share memory: same host name, same boot of the system and same
/// /dev/shm. Otherwise a number unique to this rank.
std::uint64_t this_node(bool shared_memory, int pretended, int rank) {
  std::string text = host_name() + "/node " + std::to_string(pretended), boot = boot_id();
  if (!shared_memory) text += "/rank " + std::to_string(rank);
  struct stat shm {};
  if (stat(shared_memory_folder, &shm) == 0) boot += '/' + std::to_string(shm.st_dev);
  text += '/' + boot;
  return hash64(text.data(), text.size());
}

}  // namespace

MpiNode::MpiNode(MpiRanks group, bool shared_memory, int pretended, const MpiWait& wait)
    : group_(std::move(group)) {
  const int rank = group_.rank(), size = group_.size();
  const std::uint64_t number = this_node(shared_memory, pretended, rank);
  const auto numbers = all_gather_values(number, group_, wait);
  std::vector<int> here;
  for (int r = 0; r < size; ++r) {
    if (numbers[static_cast<std::size_t>(r)] == number) here.push_back(r);
  }
  const std::size_t room = static_cast<int>(here.size()) == size
                               ? static_cast<std::size_t>(ComputeNode::staging_bytes)
                               : StagingBuffers::bytes();
  bool has_room = false;
  here_ = group_.some(here);
  auto segment = here.size() == 1 ? nullptr : share(room, wait, has_room);
  if (!segment) {
    here = {rank};
    has_room = size > 1;
    segment =
        Segment::in_this_process(1, SlotTable::bytes() + (has_room ? StagingBuffers::bytes() : 0));
  }
  const auto node_rank = static_cast<int>(std::ranges::find(here, rank) - here.begin());
  const bool whole_group = static_cast<int>(here.size()) == size;
  node_ = std::make_unique<ComputeNode>(std::move(segment), std::move(here), node_rank, whole_group,
                                        whole_group && has_room);
  meet_other_nodes(has_room, wait);
}

void MpiNode::meet_other_nodes(bool has_room, const MpiWait& wait) {
  // Every rank's slot table is ready once all ranks have exchanged the leader's number.
  const auto leader = static_cast<std::uint64_t>(node_->group_rank(0));
  const auto all = all_gather_values(leader << 1U | (has_room ? 1U : 0U), group_, wait);
  if (node_->is_whole_group()) return;
  std::vector<int> first_ranks, leading;
  for (const std::uint64_t theirs : all) {
    const auto r = static_cast<int>(first_ranks.size());
    if (first_ranks.emplace_back(static_cast<int>(theirs >> 1U)) == r) leading.push_back(r);
  }
  leaders_ = group_.some(leading);
  NodeMap map(first_ranks);
  const bool everywhere = std::ranges::all_of(all, [](auto theirs) { return (theirs & 1U) != 0; });
  if (map.most_ranks() == 1 || !everywhere) return;
  staging_.emplace(*node_, std::move(map));
}

std::shared_ptr<Segment> MpiNode::share(std::size_t room, const MpiWait& wait, bool& has_room) {
  const std::size_t slot_bytes = SlotTable::bytes();
  auto segment = make_shared_segment(here_, slot_bytes + room, wait, shortage_);
  has_room = segment != nullptr;
  if (!segment) segment = make_shared_segment(here_, slot_bytes, wait, shortage_);
  if (segment || here_.rank() > 0) shortage_.clear();
  return segment;
}

std::shared_ptr<Segment> MpiNode::allocate(std::size_t bytes, const MpiWait& wait,
                                           std::string& why) {
  const bool alone = node_->size() == 1;
  auto segment = alone ? nullptr : make_shared_segment(here_, bytes, wait, why);
  if (!node_->is_leader()) why.clear();
  if (std::ranges::min(all_gather_values(alone || segment ? 1 : 0, group_, wait)) == 0) {
    return nullptr;
  }
  if (alone) segment = Segment::in_this_process(1, bytes);  // no rank waits any more if this throws
  return segment;
}

IntrusivePtr<Storage> MpiNode::adopt(const std::shared_ptr<Segment>& segment, std::size_t bytes) {
  node_->add_buffer(segment);
  auto* owner = new std::shared_ptr<Segment>(segment);
  return Storage::borrow(
      segment->part(node_->rank()), bytes, Device{},
      [](void*, void* context) noexcept { delete static_cast<std::shared_ptr<Segment>*>(context); },
      owner);
}

}  // namespace lockstep
