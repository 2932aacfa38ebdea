#include <lockstep/comm/mpi/receive.hpp>

#include <algorithm>
#include <new>

#include <lockstep/comm/mpi/status.hpp>
#include <lockstep/comm/mpi/types.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {

bool must_probe() {
#ifdef MPICH_VERSION
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  check_mpi(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler), "MPI_Comm_get_errhandler");
  const bool returns = handler == MPI_ERRORS_RETURN;
  MPI_Errhandler_free(&handler);
  return !returns;
#else
  return true;
#endif
}

int MpiReceive::post(std::int64_t max_count) {
  const MpiBytes whole(bytes, max_count);
  return MPI_Irecv(target, whole.count(), whole.type(), source, tag, comm, &request);
}

int MpiReceive::test() {
  int over = 0;
  MPI_Status envelope;
  const int status = MPI_Test(&request, &over, &envelope);
  const bool longer = status != MPI_SUCCESS && is_truncation(status);
  if ((status != MPI_SUCCESS && !longer) || (status == MPI_SUCCESS && over == 0)) return status;
  int gone = 0;
  const int asked = giving_up || doubted ? MPI_Test_cancelled(&envelope, &gone) : MPI_SUCCESS;
  if (gone != 0 || asked != MPI_SUCCESS) {
    cancelled = gone != 0;
    return asked;
  }
  source = envelope.MPI_SOURCE;
  if (longer) {
    length = too_long;
    return MPI_SUCCESS;
  }
  MPI_Count found = 0;
  const int counted = MPI_Get_elements_x(&envelope, MPI_BYTE, &found);
  length = found;
  return counted;
}

void MpiReceive::cancel() noexcept {
  if (giving_up) return;
  giving_up = true;
  if (looked_for) {
    cancelled = length < 0;
  } else if (request != MPI_REQUEST_NULL && !doubted) {
    static_cast<void>(MPI_Cancel(&request));
  }
}

int MpiReceive::take(MPI_Message handle, const MPI_Status& envelope, std::int64_t max_count) {
  return take(handle, envelope, max_count, true);
}

int MpiReceive::take_elsewhere(MPI_Message handle, const MPI_Status& envelope,
                               std::int64_t max_count) {
  return take(handle, envelope, max_count, false);
}

int MpiReceive::take(MPI_Message handle, const MPI_Status& envelope, std::int64_t max_count,
                     bool fits) {
  MPI_Count found = 0;
  const int status = MPI_Get_elements_x(&envelope, MPI_BYTE, &found);
  if (status != MPI_SUCCESS) return status;
  source = envelope.MPI_SOURCE;
  length = found;
  std::byte* memory = target;
  if (bytes == any_length && fits) {
    message = Tensor::empty({length}, DType::u8);
    memory = address_of(message);
  } else if (length != bytes || !fits) {
    // Received all the same, for the sender's sake, unless there is no memory for it.
    elsewhere.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(length)]);
    if (!elsewhere) return MPI_SUCCESS;
    memory = elsewhere.get();
  }
  const MpiBytes whole(length, max_count);
  return MPI_Imrecv(memory, whole.count(), whole.type(), &handle, &request);
}

// It may have come after an older one had looked for it, and before this one does.
bool PendingReceives::find(const MpiReceive& receive, std::int64_t max_count, int& status) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status envelope;
  status = MPI_Improbe(receive.source, receive.tag, receive.comm, &there, &message, &envelope);
  if (status != MPI_SUCCESS || there == 0) return false;
  const auto oldest = std::ranges::find_if(
      pending_, [&](const MpiReceive* other) { return other->takes(receive.comm, envelope); });
  (*oldest)->taken = (*oldest)->take(message, envelope, max_count);
  pending_.erase(oldest);
  return true;
}

}  // namespace lockstep
