#pragma once
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace lockstep::train {

/// This job as squeue and scontrol name it alone; empty outside a job. In an array the number of
/// one task's job is that of the array, too, which they take for all of its tasks.
[[nodiscard]] std::string slurm_job();

/// Seconds that Slurm leaves this job: from $SLURM_JOB_END_TIME if this Slurm sets it, else from
/// squeue, which gets up to 30 s unless the caller is asked to `stop`. Nothing outside a job,
/// without a limit, or if Slurm does not answer.
[[nodiscard]] std::optional<double> seconds_left_in_slurm_job(const std::stop_token& stop);

/// Seconds from `now` to `time`, a text as in $SLURM_JOB_END_TIME, both since 1970; infinity if it
/// exceeds an i64. Nothing for other text, and for a time in the past.
[[nodiscard]] std::optional<double> seconds_until(std::string_view time, std::int64_t now);

/// Parses "3:00", "1:02:03" or "1-02:03:04", squeue's format of time left; nothing for other text.
[[nodiscard]] std::optional<double> seconds_of_slurm_time(std::string_view text);

}  // namespace lockstep::train
