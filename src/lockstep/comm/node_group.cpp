#include <lockstep/comm/node_group.hpp>

#include <sys/stat.h>

#include <fstream>

#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi_status.hpp>

namespace lockstep {
namespace {

/// What ranks that can share memory have in common, a host name, a start of its system and a
/// /dev/shm; or a number of this rank's own.
std::uint64_t this_node(bool shared_memory, int rank) {
  std::string text = host_name(), boot;
  if (!shared_memory) text += "/rank " + std::to_string(rank);
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat shm {};
  if (stat(SharedSegment::folder, &shm) == 0) boot += '/' + std::to_string(shm.st_dev);
  text += '/' + boot;
  return hash64(text.data(), text.size());
}

/// The ranks of `comm` that give the same number, in order. Collective over it.
std::vector<int> ranks_that_give(std::uint64_t number, MPI_Comm comm, const MpiWait& wait) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&number, sizeof number, MPI_BYTE, all.data(), sizeof number, MPI_BYTE,
                           comm, &request),
            "MPI_Iallgather");
  wait(request);
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) {
    if (all[static_cast<std::size_t>(r)] == number) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace

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

NodeGroup::NodeGroup(MPI_Comm comm, bool shared_memory, const MpiWait& wait) : group_(comm) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  auto segment = share(ranks_that_give(this_node(shared_memory, rank), comm, wait), wait);
  if (!segment) {
    group_ranks_ = {rank};
    segment = SharedSegment::alone(Board::bytes());
  }
  const auto here = static_cast<int>(group_ranks_.size());
  int node_rank = 0;
  while (group_ranks_[static_cast<std::size_t>(node_rank)] != rank) ++node_rank;
  board_ = std::make_unique<Board>(std::move(segment), here, node_rank);
  // Every rank's board is ready once all have told who leads.
  const auto alike = ranks_that_give(node_rank == 0 ? 1 : 0, comm, wait);
  whole_group_ = here == size;
  if (!whole_group_ && is_leader()) leaders_ = communicator_of(alike, comm);
}

std::shared_ptr<SharedSegment> NodeGroup::share(const std::vector<int>& ranks,
                                                const MpiWait& wait) {
  if (ranks.size() == 1) return nullptr;
  int size = 1;
  check_mpi(MPI_Comm_size(group_, &size), "MPI_Comm_size");
  const bool all = static_cast<int>(ranks.size()) == size;
  node_ = all ? group_ : communicator_of(ranks, group_);
  auto segment = SharedSegment::create(node_, Board::bytes() + relay_bytes, wait, shortage_);
  has_relay_ = segment != nullptr;
  if (!segment) segment = SharedSegment::create(node_, Board::bytes(), wait, shortage_);
  int node_rank = 0;
  check_mpi(MPI_Comm_rank(node_, &node_rank), "MPI_Comm_rank");
  if (segment || node_rank > 0) shortage_.clear();
  if (segment) {
    buffers_.push_back(segment);
    group_ranks_ = ranks;
  }
  return segment;
}

IntrusivePtr<Storage> NodeGroup::allocate(std::size_t bytes, const MpiWait& wait,
                                          std::string& why) {
  auto segment =
      size() == 1 ? SharedSegment::alone(bytes) : SharedSegment::create(node_, bytes, wait, why);
  if (!is_leader()) why.clear();
  if (largest(segment ? 0 : 1, group_, wait) != 0) return Storage::allocate(bytes);
  buffers_.push_back(segment);
  auto* owner = new std::shared_ptr<SharedSegment>(segment);
  return Storage::borrow(
      segment->part(rank()), bytes, Device{},
      [](void*, void* context) noexcept {
        delete static_cast<std::shared_ptr<SharedSegment>*>(context);
      },
      owner);
}

SharedPlace NodeGroup::place_of(const Tensor& t) const noexcept {
  const auto* begin = static_cast<const std::byte*>(t.data());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const std::byte* part = buffers_[b]->part(rank());
    if (begin < part || begin + t.bytes() > part + buffers_[b]->part_bytes()) continue;
    return {static_cast<std::int32_t>(b), static_cast<std::uint64_t>(begin - part)};
  }
  return {};
}

int NodeGroup::free() noexcept {
  int worst = MPI_SUCCESS;
  for (MPI_Comm* comm : {&node_, &leaders_}) {
    if (*comm == MPI_COMM_NULL || *comm == group_) continue;
    const int status = MPI_Comm_free(comm);
    if (worst == MPI_SUCCESS) worst = status;
  }
  return worst;
}

}  // namespace lockstep
