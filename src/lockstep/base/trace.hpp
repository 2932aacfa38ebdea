#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/base/clock.hpp>

// Records the activity of this process's threads over time. Off, which it is without a
// TraceSession, a scope costs one branch on a relaxed atomic; on, it reads the clock twice and
// writes some 70 bytes into memory of its thread.

namespace lockstep {

/// Something that took time. Texts are kept by address: literals, or names from trace_name().
struct TraceEvent {
  std::int64_t start_ns = 0, end_ns = 0;  ///< as trace_now()
  const char* category = "";
  const char* name = "";
  const char* detail = nullptr;  ///< which layer, which operation; nullptr: nothing
  std::int64_t number = -1;      ///< shown behind the name: "bucket 2"; below 0: none
  std::int64_t bytes = -1;       ///< below 0: none
  /// 0: something that its thread did. Otherwise an operation in flight, which may overlap with
  /// others; events of one number belong together, one inside the other.
  std::uint64_t flight = 0;
  std::int32_t rank = -1;  ///< of this process's ranks; below 0: that of the thread
};

/// A thread's events, in the order of their ends.
struct TraceTrack {
  const char* thread = "";  ///< see name_thread
  std::vector<TraceEvent> events;
  /// Newer events have replaced older ones: all events that ended later than this are present.
  std::int64_t complete_from_ns = 0;
};

namespace detail {
extern std::atomic<bool> is_tracing;
}  // namespace detail

[[nodiscard]] inline bool tracing() noexcept {
  return detail::is_tracing.load(std::memory_order_relaxed);
}

/// Nanoseconds of Clock.
[[nodiscard]] inline std::int64_t trace_now() noexcept {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// Adds an event to the calling thread's track, unless nobody traces. A thread's first event
/// allocates the track; if that fails, the thread has none.
void trace(const TraceEvent& event) noexcept;

/// The text at an address that stays: the same one for equal texts.
[[nodiscard]] const char* trace_name(std::string_view text);

/// Names the calling thread's track from now on: a literal.
void name_thread(const char* name) noexcept;

/// Traces from its construction to its end.
class TraceScope {
 public:
  explicit TraceScope(const char* category, const char* name, const char* detail = nullptr,
                      std::int64_t number = -1) noexcept
      : category_(category),
        name_(name),
        detail_(detail),
        number_(number),
        start_ns_(tracing() ? trace_now() : 0) {}
  ~TraceScope() {
    if (start_ns_ != 0) end(category_, name_, detail_, number_, start_ns_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  // By value, so that the members can stay in registers.
  static void end(const char* category, const char* name, const char* detail, std::int64_t number,
                  std::int64_t start_ns) noexcept;

  const char* category_;
  const char* name_;
  const char* detail_;
  std::int64_t number_;
  std::int64_t start_ns_;
};

/// While one lives, this process is traced. Ranks that are threads of it each have one. The memory
/// of the tracks goes with the last.
class TraceSession {
 public:
  /// The newest `events_a_thread` are kept (at least 1); with several sessions the first one's
  /// count applies.
  explicit TraceSession(std::size_t events_a_thread);
  ~TraceSession();
  TraceSession(const TraceSession&) = delete;
  TraceSession& operator=(const TraceSession&) = delete;

  /// The tracks so far of the calling thread's rank, in the order of their first events.
  [[nodiscard]] std::vector<TraceTrack> tracks() const;
};

}  // namespace lockstep
