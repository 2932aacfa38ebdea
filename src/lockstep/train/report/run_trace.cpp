#include <lockstep/train/report/run_trace.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/report/chrome_trace.hpp>
#include <lockstep/train/report/clock_offset.hpp>
#include <lockstep/train/run/failures.hpp>

namespace lockstep::train {
namespace {

std::size_t events_for(int ranks) {
  return static_cast<std::size_t>(
      std::min(RunTrace::events_of_a_thread, RunTrace::events_of_all / ranks));
}

std::int64_t largest(ProcessGroup& group, std::int64_t value) {
  const Tensor number = Tensor::from(std::vector{value}, {1});
  group.all_reduce(number, ReduceOp::max).wait();
  return number.to_vector<std::int64_t>().front();
}

/// A rank's turn comes after rank 0 has written those of the ranks before it, which may take longer
/// than any deadline of the group.
void send_in_turn(ProcessGroup& group, const std::string& text) {
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  Work sent = group.isend(Tensor::from(bytes, {std::ssize(bytes)}), 0);
  while (!sent.wait_for(std::chrono::seconds(1))) {
  }
}

std::string receive(ProcessGroup& group, int rank) {
  Work received = MessagePort(group).irecv(rank);
  received.wait();
  const auto bytes = received.message().to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

/// On rank 0: a failure is kept until every rank has sent its text.
class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path) {
    attempt([&] { file_.emplace(path); });
  }
  void append(std::string_view text) {
    attempt([&] {
      file_->file().write_at(bytes_, text.data(), std::ssize(text));
      bytes_ += std::ssize(text);
    });
  }
  void publish() {
    attempt([&] { file_->publish(); });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  template <class Part>
  void attempt(const Part& part) {
    if (failure_) return;
    try {
      part();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  std::optional<AtomicFile> file_;
  std::int64_t bytes_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

RunTrace::RunTrace(ProcessGroup& group, nn::Module& model)
    : group_(group), session_(events_for(group.size())), began_ns_(trace_now()) {
  model.name_layers();
  name_thread("training");
  group_.barrier();
}

void RunTrace::write(const std::filesystem::path& file) {
  const ClockOffset clock = measure_clock_offset(group_);
  const std::vector<TraceTrack> tracks = session_.tracks();
  const std::int64_t earliest = -largest(group_, -(began_ns_ + clock.offset_ns));
  TracedRank rank{.rank = group_.rank(),
                  .host = host_name(),
                  .shift_ns = clock.offset_ns - earliest,
                  .clock_error_ns = clock.error_ns};
  std::int64_t complete_from = std::numeric_limits<std::int64_t>::min();
  for (const TraceTrack& track : tracks) {
    if (track.complete_from_ns > 0)
      complete_from = std::max(complete_from, track.complete_from_ns + rank.shift_ns);
  }
  rank.from_ns = largest(group_, complete_from);
  const std::string text = chrome_events(rank, tracks);
  if (group_.rank() != 0) {
    send_in_turn(group_, text);
    return agree(group_, [] {});
  }
  TraceFile target(file);
  target.append(chrome_trace_head);
  target.append(text);
  for (int other = 1; other < group_.size(); ++other) {
    target.append(",\n");
    target.append(receive(group_, other));
  }
  target.append(chrome_trace_tail);
  agree(group_, [&] { target.publish(); });
}

}  // namespace lockstep::train
