#include "measurement.hpp"

#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>

#include "elastic/child.hpp"
#include "store.hpp"

namespace lockstep::scaling {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t most_bytes = std::int64_t{256} << 20U;

std::string why(const Ended& ended, std::int64_t steps, const Identity& identity) {
  const std::string progress = fmt::format("{} of the {} measured steps", steps, identity.steps);
  if (ended.was_late) return fmt::format("not done in its time (--limit), with {}", progress);
  return fmt::format("ended with exit code {} after {}{}{}", ended.code, progress,
                     ended.words.empty() ? "" : ": ", ended.words);
}

/// Of what the run says about itself; "" if it can be used.
std::string fault_of(const Json& summary, const Interval& all, const Result& result,
                     const Identity& identity) {
  if (summary.at("ranks") != result.ranks) {
    return fmt::format("the program ran on {} rank(s): its MPI is not the launcher's",
                       summary.at("ranks").get<int>());
  }
  const auto version = summary.at("version").get<std::string>();
  const auto commit = summary.at("git_commit").get<std::string>();
  if (version != identity.version || commit != identity.commit) {
    return fmt::format("the program is of Lockstep {}, commit {}, and this is {}, commit {}",
                       version, commit, identity.version, identity.commit);
  }
  constexpr double nearly = 0.9;  // an epoch's last batch may be smaller
  const double samples = all.samples / static_cast<double>(all.steps);
  if (samples < nearly * static_cast<double>(result.batch_size)) {
    return fmt::format(
        "a step had {:.0f} samples on average, not {}: the training set is too small", samples,
        result.batch_size);
  }
  return {};
}

}  // namespace

Ended run_command(const elastic::Launcher::Command& command, double limit_s,
                  const std::function<bool()>& stops, const std::function<void()>& look) {
  constexpr Seconds look_each{0.05};
  constexpr Seconds last_words{5};  // between SIGTERM and SIGKILL
  constexpr std::size_t most_output = 1 << 16U;
  std::string output;
  const auto listen = [&](std::string_view line) {
    if (output.size() < most_output) (output += line) += '\n';
  };
  Ended ended;
  const auto begun = Clock::now();
  elastic::Child child(command.words, command.environment, listen,
                       elastic::Child::Output::listened_to);
  while (!child.wait(look_each)) {
    ended.was_stopped = stops();
    ended.was_late = seconds_since(begun) > limit_s;
    if (ended.was_stopped || ended.was_late) {
      child.signal(SIGTERM);
      static_cast<void>(child.wait(last_words));
      break;
    }
    look();
  }
  static_cast<void>(child.kill_all());
  ended.code = child.code();
  ended.words = elastic::first_words(output);
  return ended;
}

void StepLimit::look() {
  std::error_code error;
  const fs::path file = folder_ / "metrics.jsonl";
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (asked_ || error || bytes == seen_) return;
  seen_ = bytes;
  const auto intervals = intervals_of(read_small_file_or_nothing(file, most_bytes));
  // Rows in which the warm-up ends do not count.
  if (total(measured(intervals, warmup_, steps_)).steps < steps_) return;
  std::ofstream(folder_ / "stop") << "measured\n";
  asked_ = true;
}

Result read_run(Result result, const fs::path& folder, const Identity& identity,
                const Ended& ended) {
  try {
    result.intervals =
        measured(intervals_of(read_small_file_or_nothing(folder / "metrics.jsonl", most_bytes)),
                 identity.warmup, identity.steps);
    const Interval all = total(result.intervals);
    std::error_code error;
    if (all.steps < identity.steps || !fs::exists(folder / "summary.json", error)) {
      result.failed = why(ended, all.steps, identity);
      return result;
    }
    const Json summary = read_study_file(folder / "summary.json");
    result.failed = fault_of(summary, all, result, identity);
    result.peak_rss_mib = summary.at("peak_rss_mib").get<std::vector<std::int64_t>>();
  } catch (const Json::exception& error) {
    result.failed = fmt::format("its files cannot be read: {}", error.what());
  }
  return result;
}

}  // namespace lockstep::scaling
