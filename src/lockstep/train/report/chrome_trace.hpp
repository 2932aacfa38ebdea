#pragma once
#include <cstdint>
#include <span>
#include <string>

#include <lockstep/base/trace.hpp>

namespace lockstep::train {

/// A rank's metadata in a trace, and the conversion of its times.
struct TracedRank {
  int rank = 0;
  std::string host;
  std::int64_t shift_ns = 0;        ///< from the rank's clock to the file's
  std::int64_t clock_error_ns = 0;  ///< error of that offset
  std::int64_t from_ns = 0;         ///< by the file's clock: earlier events are left out
};

/// For an event of a device, named in the event's detail: it has a row of its own.
inline constexpr const char* device_category = "device";

/// A rank's events in Chrome's trace event format, which Perfetto reads: JSON objects with commas
/// between them. A rank is a process of the file, a track is a thread, and an operation in progress
/// is an asynchronous event (one track per name). Format: "Trace Event Format",
/// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
[[nodiscard]] std::string chrome_events(const TracedRank& rank, std::span<const TraceTrack> tracks);

/// Text before and after the events of all ranks.
inline constexpr const char* chrome_trace_head = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline constexpr const char* chrome_trace_tail = "\n]}\n";

}  // namespace lockstep::train
