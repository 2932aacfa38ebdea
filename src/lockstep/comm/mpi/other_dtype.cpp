#include <lockstep/comm/mpi/other_dtype.hpp>

#include <fmt/format.h>

#include <array>

#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

constexpr std::array every_dtype{DType::f32, DType::f64, DType::bf16, DType::f16,
                                 DType::i32, DType::i64, DType::u8,   DType::boolean};
// Rare enough to be negligible beside an MPI poll of about 0.1 us.
constexpr std::uint32_t looks_between = 16;
// Long enough for every message sent before the waiting one to be announced.
constexpr auto time_between = std::chrono::milliseconds(25);

DType awaited_dtype(const Operation& operation) {
  return operation.output.defined() ? operation.output.dtype() : DType::u8;
}

}  // namespace

void OtherDtype::look(MpiReceive& receive, const Operation& operation, const MpiPlace& place,
                      PendingReceives& pending) {
  if (came_ || receive.giving_up || receive.length >= 0 || ++looks_ % looks_between != 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  const bool is_first = next_ == std::chrono::steady_clock::time_point{};
  next_ = now + time_between;
  if (is_first) return;
  const auto found = waiting(receive, operation, place);
  const bool again = found && found == seen_;
  seen_ = found;
  if (!again) return;
  if (receive.looked_for) return take(receive, operation, place, pending);
  if (receive.doubted) return;  // the awaited message is being transferred
  receive.doubted = true;
  expect_success(MPI_Cancel(&receive.request));
}

std::optional<OtherDtype::Waiting> OtherDtype::waiting(const MpiReceive& receive,
                                                       const Operation& operation,
                                                       const MpiPlace& place) {
  for (const DType dtype : every_dtype) {
    if (dtype == awaited_dtype(operation)) continue;
    int there = 0;
    MPI_Status envelope;
    expect_success(MPI_Iprobe(receive.source, place.ranks->tag_of_message(operation.tag, dtype),
                              receive.comm, &there, &envelope));
    if (there != 0) return Waiting{dtype, envelope.MPI_SOURCE};
  }
  return std::nullopt;
}

void OtherDtype::take(MpiReceive& receive, const Operation& operation, const MpiPlace& place,
                      PendingReceives& pending) {
  receive.cancelled = false;
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status envelope;
  expect_success(MPI_Improbe(receive.source,
                             place.ranks->tag_of_message(operation.tag, seen_->dtype), receive.comm,
                             &there, &message, &envelope));
  came_ = seen_->dtype;
  pending.remove(receive);
  receive.looked_for = true;
  if (there != 0) return receive.take_elsewhere(message, envelope, place.max_count);
  receive.source = seen_->source;
  receive.length = 0;
}

std::string OtherDtype::finding(const Operation& operation, const MpiReceive& receive,
                                const MpiRanks& ranks) const {
  return fmt::format(
      "rank {} sent a message of {} with tag {} where {} was expected: a message is received into "
      "a tensor of the dtype that was sent, and without a length into u8",
      ranks.rank_of(receive.source), name_of(*came_), operation.tag,
      name_of(awaited_dtype(operation)));
}

}  // namespace lockstep
