#pragma once
#include <cstdint>
#include <span>

#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// What must be added to this rank's trace_now() to get rank 0's, and how wrong that may be.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
};

/// A question and its answer: when rank 0 asked, what the other rank's clock showed, when the
/// answer was here.
struct ClockQuestion {
  std::int64_t asked_ns, answer_ns, heard_ns;
};

/// From the question that was answered fastest: the other clock was read at some moment between
/// asking and hearing, so the middle is wrong by half of that time at most. Where no offset at all
/// is within the error, as on one machine, whose processes share a clock, it is 0.
[[nodiscard]] ClockOffset offset_from(std::span<const ClockQuestion> questions);

/// Measured by messages, now; clocks of two machines drift apart by some microseconds a second.
/// Collective.
[[nodiscard]] ClockOffset measure_clock_offset(ProcessGroup& group);

}  // namespace lockstep::train
