#include <lockstep/train/run/slurm_time.hpp>

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>
#include <system_error>

#include <lockstep/base/helper_program.hpp>
#include <lockstep/base/host.hpp>

namespace lockstep::train {
namespace {

constexpr double patience_s = 30;

}  // namespace

std::optional<double> seconds_of_slurm_time(std::string_view text) {
  double seconds = 0, part = 0;
  int colons = 0;
  bool days = false;
  const char *at = text.data(), *const end = at + text.size();
  while (true) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    part = number;
    at = next;
    if (at == end) break;
    if (*at == '-' && !days && colons == 0) {
      seconds = part * 24;
      days = true;
    } else if (*at == ':') {
      seconds = (seconds + part) * 60;
      ++colons;
    } else {
      return std::nullopt;
    }
    ++at;
  }
  if (colons != 2 && (days || colons != 1)) return std::nullopt;
  return seconds + part;
}

std::optional<double> seconds_until(std::string_view time, std::int64_t now) {
  std::int64_t end = 0;
  const auto [rest, error] = std::from_chars(time.data(), time.data() + time.size(), end);
  const bool digits = !time.empty() && rest == time.data() + time.size() && time[0] != '-';
  if (digits && error == std::errc::result_out_of_range)
    return std::numeric_limits<double>::infinity();
  if (!digits || error != std::errc() || end <= now) return std::nullopt;
  return static_cast<double>(end - now);
}

std::string slurm_job() {
  const std::string array = environment("SLURM_ARRAY_JOB_ID");
  if (array.empty()) return environment("SLURM_JOB_ID");
  return array + "_" + environment("SLURM_ARRAY_TASK_ID");
}

std::optional<double> seconds_left_in_slurm_job(const std::stop_token& stop) {
  const std::string job = slurm_job();
  if (job.empty()) return std::nullopt;
  if (const char* const end = std::getenv("SLURM_JOB_END_TIME")) {
    if (const auto left = seconds_until(end, std::time(nullptr))) return left;
  }
  const HelperEnd squeue =
      run_helper({"squeue", "--noheader", "--format=%L", "--jobs", job}, patience_s, {}, stop);
  return seconds_of_slurm_time(squeue.output.substr(0, squeue.output.find('\n')));
}

}  // namespace lockstep::train
