#include <lockstep/comm/mpi/receive.hpp>

#include <algorithm>
#include <new>

#include <lockstep/comm/mpi/status.hpp>
#include <lockstep/comm/mpi/types.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {
namespace {

std::int64_t bytes_of(const MPI_Status& envelope) {
  MPI_Count found = 0;
  expect_success(MPI_Get_elements_x(&envelope, MPI_BYTE, &found));
  return found;
}

}  // namespace

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

void MpiReceive::post(std::int64_t max_count) {
  const MpiBytes whole(bytes, max_count);
  expect_success(MPI_Irecv(target, whole.count(), whole.type(), source, tag, comm, &request));
}

void MpiReceive::test() {
  int over = 0;
  MPI_Status envelope;
  const int status = MPI_Test(&request, &over, &envelope);
  const bool longer = status != MPI_SUCCESS && is_truncation(status);
  if (!longer) expect_success(status);
  if (!longer && over == 0) return;
  int gone = 0;
  if (giving_up || doubted) expect_success(MPI_Test_cancelled(&envelope, &gone));
  cancelled = gone != 0;
  if (cancelled) return;
  source = envelope.MPI_SOURCE;
  length = longer ? too_long : bytes_of(envelope);
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

void MpiReceive::take(MPI_Message handle, const MPI_Status& envelope, std::int64_t max_count,
                      bool fits) {
  source = envelope.MPI_SOURCE;
  length = bytes_of(envelope);
  std::byte* memory = target;
  if (bytes == any_length && fits) {
    message = Tensor::empty({length}, DType::u8);
    memory = address_of(message);
  } else if (length != bytes || !fits) {
    // Receive it anyway so that the sender can complete, unless memory runs out.
    elsewhere.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(length)]);
    if (!elsewhere) return;
    memory = elsewhere.get();
  }
  const MpiBytes whole(length, max_count);
  expect_success(MPI_Imrecv(memory, whole.count(), whole.type(), &handle, &request));
}

// The message may have arrived between an older receive's look and this one.
bool PendingReceives::find(const MpiReceive& receive, std::int64_t max_count) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status envelope;
  expect_success(
      MPI_Improbe(receive.source, receive.tag, receive.comm, &there, &message, &envelope));
  if (there == 0) return false;
  const auto found = std::ranges::find_if(
      pending_, [&](const MpiReceive* other) { return other->takes(receive.comm, envelope); });
  MpiReceive& oldest = **found;
  pending_.erase(found);
  oldest.take(message, envelope, max_count);
  return true;
}

}  // namespace lockstep
