#pragma once
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

namespace lockstep::train {

/// Seconds that Slurm leaves this job, asked now: $SLURM_JOB_END_TIME where this Slurm sets it,
/// else squeue, which gets up to 30 s unless the caller is asked to `stop`. Nothing outside a job,
/// without a limit, or where Slurm does not answer.
[[nodiscard]] std::optional<double> seconds_left_in_slurm_job(const std::stop_token& stop);

/// Seconds from `now` to `time`, both since 1970, as $SLURM_JOB_END_TIME says it; infinity if an
/// i64 does not hold it. Nothing for other words and for what is over.
[[nodiscard]] std::optional<double> seconds_until(std::string_view time, std::int64_t now);

/// "3:00", "1:02:03" or "1-02:03:04", as squeue prints what is left; nothing for other words.
[[nodiscard]] std::optional<double> seconds_of_slurm_time(std::string_view text);

}  // namespace lockstep::train
