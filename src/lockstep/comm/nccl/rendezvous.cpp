#include <lockstep/comm/nccl/rendezvous.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/comm/call_record.hpp>

namespace lockstep {
namespace {

// Tags in the message group: lengths, by direction of the message.
enum Tag : int { length_of_sent, length_of_received };

std::int64_t* elements(const Tensor& t) { return static_cast<std::int64_t*>(t.data()); }

bool exchanges_by_counts(const Operation& operation) {
  return operation.kind == Operation::Kind::all_to_all && !operation.input_counts.empty();
}

/// A 64-bit hash of a length that both ends of a pair must agree on.
std::int64_t mark(std::int64_t from, std::int64_t to, std::int64_t count) {
  const std::array<std::int64_t, 3> all{from, to, count};
  return static_cast<std::int64_t>(hash64(all.data(), sizeof all));
}

/// A hash of all lengths that this rank sends and expects. The exclusive or over all ranks is 0 if
/// every pair agrees, since each length then occurs twice; a mismatch gives 0 with a chance of
/// 2^-64.
std::int64_t marks_of(const Operation& operation, int rank) {
  std::int64_t all = 0;
  if (!exchanges_by_counts(operation)) return all;
  for (std::size_t r = 0; r < operation.input_counts.size(); ++r) {
    all ^= mark(rank, static_cast<std::int64_t>(r), operation.input_counts[r]);
    all ^= mark(static_cast<std::int64_t>(r), rank, operation.output_counts[r]);
  }
  return all;
}

Tensor bytes_of(const CallRecord& record) {
  static_assert(std::is_trivially_copyable_v<CallRecord>);
  auto t = Tensor::empty({sizeof(CallRecord)}, DType::u8);
  std::memcpy(t.data(), &record, sizeof record);
  return t;
}

}  // namespace

void NcclRendezvous::post(ProcessGroup& control, const Operation& operation, Contract contract,
                          std::int64_t time) {
  if (posted_) return;
  posted_ = true;
  if (contract == Contract::off && operation.kind != Operation::Kind::barrier) return;
  size_ = control.size();
  mine_ = Tensor::empty({3}, DType::i64);
  all_ = Tensor::empty({size_, 3}, DType::i64);
  elements(mine_)[2] = time;
  elements(mine_)[0] = static_cast<std::int64_t>(
      contract == Contract::full ? fingerprint_of(operation, true) : operation.fingerprint);
  elements(mine_)[1] = marks_of(operation, control.rank());
  work_ = control.all_gather(mine_, all_);
}

CallMatch NcclRendezvous::compare(ProcessGroup& messages, const Operation& operation) {
  if (!work_.test()) return CallMatch::pending;
  if (agrees()) return CallMatch::equal;
  if (!told_.defined()) exchange_calls(messages, operation);
  return exchange_.test() ? CallMatch::different : CallMatch::pending;
}

std::int64_t NcclRendezvous::time() const {
  std::int64_t latest = 0;
  for (int r = 0; r < size_; ++r) latest = std::max(latest, row(r)[2]);
  return latest;
}

bool NcclRendezvous::agrees() const {
  std::int64_t lengths = 0;
  for (int r = 0; r < size_; ++r) lengths ^= row(r)[1];
  return deviant() == size_ && lengths == 0;
}

const std::int64_t* NcclRendezvous::row(int rank) const {
  return elements(all_) + std::ptrdiff_t{3} * rank;
}

/// The first rank whose call differs from that of rank 0; size_ if there is none.
int NcclRendezvous::deviant() const {
  int r = 0;
  while (r < size_ && row(r)[0] == row(0)[0]) ++r;
  return r;
}

/// Gathers every rank's call or, where the calls are equal, the counts that every rank sends to
/// this one.
void NcclRendezvous::exchange_calls(ProcessGroup& messages, const Operation& operation) {
  if (deviant() == size_) {
    const auto sent = Tensor::from(operation.input_counts, {size_, 1});
    told_ = Tensor::empty({size_, 1}, DType::i64);
    exchange_ = messages.all_to_all(sent, told_);
  } else {
    told_ = Tensor::empty({size_, sizeof(CallRecord)}, DType::u8);
    exchange_ = messages.all_gather(bytes_of(record_of(operation)), told_);
  }
}

std::string NcclRendezvous::mismatch(const Operation& operation, int rank) const {
  if (const int other = deviant(); other != size_) {
    const int teller = row(rank)[0] == row(0)[0] ? other : 0;
    CallRecord theirs;
    std::memcpy(&theirs, told_.slice(teller, teller + 1).data(), sizeof theirs);
    return called_something_else(teller, record_of(operation), theirs);
  }
  for (int r = 0; r < size_; ++r) {
    const std::int64_t expected = operation.output_counts[static_cast<std::size_t>(r)];
    if (elements(told_)[r] == expected) continue;
    return fmt::format("rank {} sent {} elements where {} were expected", r, elements(told_)[r],
                       expected);
  }
  return "the counts that ranks send differ from the counts that others expect";
}

void NcclHandshake::post(ProcessGroup& messages, const Operation& message) {
  sends_ = message.kind == Operation::Kind::send;
  const Tensor& t = sends_ ? message.input : message.output;
  mine_ = Tensor::empty({2}, DType::i64);
  theirs_ = Tensor::empty({2}, DType::i64);
  elements(mine_)[0] = static_cast<std::int64_t>(t.bytes());
  elements(mine_)[1] = static_cast<std::int64_t>(t.dtype());
  telling_ = messages.isend(mine_, message.root, sends_ ? length_of_sent : length_of_received);
  hearing_ = messages.irecv(theirs_, message.root, sends_ ? length_of_received : length_of_sent);
}

bool NcclHandshake::look(std::string& finding) {
  if (!mine_.defined()) return true;  // nothing was posted
  const bool told = telling_.test();
  if (!hearing_.test() || !told) return false;
  const std::int64_t here = elements(mine_)[0], there = elements(theirs_)[0];
  if (const auto dtype = elements(mine_)[1], other = elements(theirs_)[1]; dtype != other) {
    const auto name = [](std::int64_t d) { return name_of(static_cast<DType>(d)); };
    finding = fmt::format("a message of {} came where {} was expected",
                          name(sends_ ? dtype : other), name(sends_ ? other : dtype));
  } else if (here != there) {
    finding = fmt::format("a message of {} bytes came where {} were expected",
                          sends_ ? here : there, sends_ ? there : here);
  }
  return true;
}

}  // namespace lockstep
