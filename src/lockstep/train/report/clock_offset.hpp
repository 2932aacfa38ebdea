#pragma once
#include <cstdint>
#include <span>

#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// Offset to add to this rank's trace_now() to get rank 0's, and its error.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
};

/// One exchange: rank 0's time when it asked, the other rank's clock, rank 0's time when the answer
/// arrived.
struct ClockQuestion {
  std::int64_t asked_ns, answer_ns, heard_ns;
};

/// From the fastest exchange: the other clock was read between question and answer, so the midpoint
/// is wrong by at most half of that time. The offset is 0 if 0 is within the error, as for
/// processes of one machine, which share a clock.
[[nodiscard]] ClockOffset offset_from(std::span<const ClockQuestion> questions);

/// Measures by messages, now. Clocks of two machines drift apart by some microseconds per second.
/// Collective.
[[nodiscard]] ClockOffset measure_clock_offset(ProcessGroup& group);

}  // namespace lockstep::train
