#include <lockstep/comm/engine/traced_call.hpp>

#include <fmt/format.h>

#include <atomic>
#include <exception>

#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/call_label.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t shortest_shown_ns = 1000;

}  // namespace

void TracedCall::entered(const Operation& operation, const std::string& group) noexcept {
  if (!tracing()) return;
  static std::atomic<std::uint64_t> flights = 0;
  label_ = detail_ = name_of(operation.kind);
  try {  // the texts of the label and the group may not live as long
    if (const CallLabel* label = CallLabel::current()) {
      label_ = trace_name(label->what());
      number_ = label->number();
    }
    if (!group.empty()) {
      char text[64];
      const auto end = fmt::format_to_n(text, sizeof(text), "{} of {}", detail_, group).out;
      detail_ = trace_name({text, static_cast<std::size_t>(end - text)});
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then without them
  }
  flight_ = ++flights;
  rank_ = thread_rank();
  entered_ns_ = trace_now();
}

void TracedCall::agreed() noexcept {
  if (entered_ns_ != 0) agreed_ns_ = trace_now();
}

void TracedCall::over(const Operation& operation) const noexcept {
  if (entered_ns_ == 0) return;
  const Tensor& tensor = operation.input.defined() ? operation.input : operation.output;
  TraceEvent event{.start_ns = entered_ns_,
                   .end_ns = trace_now(),
                   .category = "collective",
                   .name = label_,
                   .detail = detail_,
                   .number = number_,
                   .bytes = tensor.defined() ? static_cast<std::int64_t>(tensor.bytes()) : 0,
                   .flight = flight_,
                   .rank = rank_};
  if (operation.is_message()) event.category = "message";
  trace(event);
  if (agreed_ns_ - entered_ns_ < shortest_shown_ns) return;
  event.end_ns = agreed_ns_;
  event.name = "not all ranks have entered";
  event.number = event.bytes = -1;
  trace(event);
}

}  // namespace lockstep
