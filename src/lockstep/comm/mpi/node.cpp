#include <lockstep/comm/mpi/node.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi/shared_segment.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

/// What ranks that can share memory have in common, a host name, a start of its system and a
/// /dev/shm; or a number of this rank's own.
std::uint64_t this_node(bool shared_memory, int pretended, int rank) {
  std::string text = host_name() + "/node " + std::to_string(pretended), boot;
  if (!shared_memory) text += "/rank " + std::to_string(rank);
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat shm {};
  if (stat(SharedSegment::folder, &shm) == 0) boot += '/' + std::to_string(shm.st_dev);
  text += '/' + boot;
  return hash64(text.data(), text.size());
}

/// What each rank of `comm` gives. Collective over it.
std::vector<std::uint64_t> given_by_all(std::uint64_t number, MPI_Comm comm, const MpiWait& wait) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&number, sizeof number, MPI_BYTE, all.data(), sizeof number, MPI_BYTE,
                           comm, &request),
            "MPI_Iallgather");
  wait(request);
  return all;
}

}  // namespace

// Not by MPI_Comm_create_group, which would spare the caller's attributes their copy functions: it
// blocks in MPI, where ranks that wait do not make room for each other. 8 ranks on 2 cores: 42 ms
// instead of 1.
MPI_Comm duplicate_of(MPI_Comm comm, const MpiWait& wait) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm, &made, &request), "MPI_Comm_idup");
  wait(request);
  check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return made;
}

// Not MPI_Comm_split and MPI_Comm_split_type: they too block in MPI, where ranks that wait do not
// make room for each other, and for longer. 8 ranks on 2 cores: 42 ms, 95 ms and 310 ms.
MPI_Comm communicator_of(const std::vector<int>& members, MPI_Comm comm) {
  constexpr int tag = 0;
  MPI_Group everybody = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(comm, &everybody), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(everybody, static_cast<int>(members.size()), members.data(), &group),
            "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(comm, group, tag, &made), "MPI_Comm_create_group");
  check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Group_free(&group);
  MPI_Group_free(&everybody);
  return made;
}

MpiNode::MpiNode(MPI_Comm comm, bool shared_memory, int pretended, const MpiWait& wait)
    : group_(comm) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const std::uint64_t number = this_node(shared_memory, pretended, rank);
  const auto numbers = given_by_all(number, comm, wait);
  std::vector<int> here;
  for (int r = 0; r < size; ++r) {
    if (numbers[static_cast<std::size_t>(r)] == number) here.push_back(r);
  }
  const std::size_t room = static_cast<int>(here.size()) == size
                               ? static_cast<std::size_t>(Node::relay_bytes)
                               : Depot::bytes();
  bool has_room = false;
  auto segment = here.size() == 1 ? nullptr : share(here, room, wait, has_room);
  if (!segment) {
    here = {rank};
    has_room = size > 1;
    segment = Segment::in_this_process(1, Board::bytes() + (has_room ? Depot::bytes() : 0));
  }
  const auto node_rank = static_cast<int>(std::ranges::find(here, rank) - here.begin());
  const bool whole_group = static_cast<int>(here.size()) == size;
  node_ = std::make_unique<Node>(std::move(segment), std::move(here), node_rank, whole_group,
                                 whole_group && has_room);
  meet_other_nodes(has_room, wait);
}

void MpiNode::meet_other_nodes(bool has_room, const MpiWait& wait) {
  // Every rank's board is ready once all have told who leads.
  const auto leader = static_cast<std::uint64_t>(node_->group_rank(0));
  const auto all = given_by_all(leader << 1U | (has_room ? 1U : 0U), group_, wait);
  if (node_->is_whole_group()) return;
  std::vector<int> first_ranks, leading;
  for (const std::uint64_t theirs : all) {
    const auto r = static_cast<int>(first_ranks.size());
    if (first_ranks.emplace_back(static_cast<int>(theirs >> 1U)) == r) leading.push_back(r);
  }
  if (node_->is_leader()) leaders_ = communicator_of(leading, group_);
  NodeMap map(first_ranks);
  const bool everywhere = std::ranges::all_of(all, [](auto theirs) { return (theirs & 1U) != 0; });
  if (map.most_ranks() == 1 || !everywhere) return;
  depot_.emplace(*node_, std::move(map));
  if (node_->is_leader()) leaders_of_pieces_ = duplicate_of(leaders_, wait);
}

std::shared_ptr<Segment> MpiNode::share(const std::vector<int>& ranks, std::size_t room,
                                        const MpiWait& wait, bool& has_room) {
  int size = 1;
  check_mpi(MPI_Comm_size(group_, &size), "MPI_Comm_size");
  const bool all = static_cast<int>(ranks.size()) == size;
  node_comm_ = all ? group_ : communicator_of(ranks, group_);
  const std::size_t board = Board::bytes();
  auto segment = SharedSegment::create(node_comm_, board + room, wait, shortage_);
  has_room = segment != nullptr;
  if (!segment) segment = SharedSegment::create(node_comm_, board, wait, shortage_);
  int node_rank = 0;
  check_mpi(MPI_Comm_rank(node_comm_, &node_rank), "MPI_Comm_rank");
  if (segment || node_rank > 0) shortage_.clear();
  return segment;
}

IntrusivePtr<Storage> MpiNode::allocate(std::size_t bytes, const MpiWait& wait, std::string& why) {
  auto segment = node_->size() == 1 ? Segment::in_this_process(1, bytes)
                                    : SharedSegment::create(node_comm_, bytes, wait, why);
  if (!node_->is_leader()) why.clear();
  if (largest(segment ? 0 : 1, group_, wait) != 0) return Storage::allocate(bytes);
  node_->add_buffer(segment);
  auto* owner = new std::shared_ptr<Segment>(segment);
  return Storage::borrow(
      segment->part(node_->rank()), bytes, Device{},
      [](void*, void* context) noexcept { delete static_cast<std::shared_ptr<Segment>*>(context); },
      owner);
}

int MpiNode::free() noexcept {
  int worst = MPI_SUCCESS;
  for (MPI_Comm* comm : {&node_comm_, &leaders_, &leaders_of_pieces_}) {
    if (*comm == MPI_COMM_NULL || *comm == group_) continue;
    const int status = MPI_Comm_free(comm);
    if (worst == MPI_SUCCESS) worst = status;
  }
  return worst;
}

}  // namespace lockstep
