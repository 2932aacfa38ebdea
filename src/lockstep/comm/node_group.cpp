#include <lockstep/comm/node_group.hpp>

#include <lockstep/comm/mpi_status.hpp>

namespace lockstep {
namespace {

MPI_Comm split(MPI_Comm comm, int colour, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, colour, key, &part), "MPI_Comm_split");
  if (part != MPI_COMM_NULL) {
    check_mpi(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  return part;
}

std::vector<int> all_gather_rank(MPI_Comm node, int rank, const MpiWait& wait) {
  int size = 1;
  check_mpi(MPI_Comm_size(node, &size), "MPI_Comm_size");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, node, &request),
            "MPI_Iallgather");
  wait(request);
  return ranks;
}

}  // namespace

NodeGroup::NodeGroup(MPI_Comm comm, bool shared_memory, const MpiWait& wait) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::shared_ptr<SharedSegment> segment;
  if (shared_memory) {
    check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node_),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_set_errhandler(node_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    segment = SharedSegment::create(node_, Board::bytes(), wait, shortage_);
    if (!segment) MPI_Comm_free(&node_);  // the others of this machine have come to the same
  }
  if (!segment) {
    node_ = split(MPI_COMM_SELF, 0, 0);
    segment = SharedSegment::alone(Board::bytes());
  }
  int node_rank = 0, node_size = 1;
  check_mpi(MPI_Comm_rank(node_, &node_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node_, &node_size), "MPI_Comm_size");
  board_ = std::make_unique<Board>(std::move(segment), node_size, node_rank);
  group_ranks_ = all_gather_rank(node_, rank, wait);  // after which every rank's board is ready
  leaders_ = split(comm, node_rank == 0 ? 0 : MPI_UNDEFINED, rank);
  whole_group_ = node_size == size;
  if (node_size == 1) return;
  std::string why;  // of no consequence: there is another way
  if (auto relay = SharedSegment::create(node_, relay_bytes, wait, why)) {
    relay_ = static_cast<std::int32_t>(buffers_.size());
    buffers_.push_back(std::move(relay));
  }
}

IntrusivePtr<Storage> NodeGroup::allocate(MPI_Comm comm, std::size_t bytes, const MpiWait& wait,
                                          std::string& why) {
  auto segment = SharedSegment::create(node_, bytes, wait, why);
  if (!everywhere(segment != nullptr, comm, wait)) return Storage::allocate(bytes);
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
  const int status = MPI_Comm_free(&node_);
  const int leaders = leaders_ == MPI_COMM_NULL ? MPI_SUCCESS : MPI_Comm_free(&leaders_);
  return status == MPI_SUCCESS ? leaders : status;
}

}  // namespace lockstep
