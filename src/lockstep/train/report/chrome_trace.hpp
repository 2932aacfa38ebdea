#pragma once
#include <cstdint>
#include <span>
#include <string>

#include <lockstep/base/trace.hpp>

namespace lockstep::train {

/// What a trace says of a rank, and how its times become those of the file.
struct TracedRank {
  int rank = 0;
  std::string host;
  std::int64_t shift_ns = 0;        ///< from the rank's clock to the file's
  std::int64_t clock_error_ns = 0;  ///< of that
  std::int64_t from_ns = 0;         ///< by the file's clock: what ended before is left out
};

/// Of what a device did, whose name is the event's detail: it has a row of its own.
inline constexpr const char* device_category = "device";

/// A rank's events in Chrome's trace event format, which Perfetto reads: JSON objects with commas
/// between them. The rank is a process of the file, each track a thread, what is in flight an
/// asynchronous event (one track a name).
/// Format: "Trace Event Format",
/// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
[[nodiscard]] std::string chrome_events(const TracedRank& rank, std::span<const TraceTrack> tracks);

/// What stands before and behind the events of all ranks.
inline constexpr const char* chrome_trace_head = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline constexpr const char* chrome_trace_tail = "\n]}\n";

}  // namespace lockstep::train
