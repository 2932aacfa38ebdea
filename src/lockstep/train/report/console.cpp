#include <lockstep/train/report/console.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/printable.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/train/report/log_file.hpp>
#include <lockstep/train/report/standard_output.hpp>

namespace lockstep::train {
namespace {

/// Moves to the beginning of the terminal's line and clears it.
constexpr const char* redraw = "\r\033[K";

/// Columns for one line of the terminal: a wrapped line could not be redrawn. The last column stays
/// free, because some terminals wrap there at once.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : 80U) - 1U;
}

/// "all_reduce(sum) #17 of f32[6553600], entered": this process's newest calls, the oldest first.
std::vector<std::string> last_calls() {
  constexpr std::size_t most = 10;
  const auto recorder = FlightRecorder::current();
  if (!recorder) return {};
  std::vector<FlightCall> calls;
  try {
    for (const FlightGroupView& group : read_flight_ring(recorder->path()).groups)
      calls.insert(calls.end(), group.calls.begin(), group.calls.end());
  } catch (const Error&) {  // the calls that were read so far
  }
  std::ranges::stable_sort(calls, {}, &FlightCall::entered_s);
  if (calls.size() > most) calls.erase(calls.begin(), calls.end() - most);
  std::vector<std::string> lines;
  for (const FlightCall& call : calls) {
    const bool is_over = call.state == FlightCall::State::completed;
    lines.push_back(fmt::format("{}, {}", call.what, is_over ? "completed" : "not completed"));
  }
  return lines;
}

}  // namespace

Console::Console(int rank) : rank_(rank), terminal_(isatty(STDOUT_FILENO) == 1) {
  set_level(LogLevel::info);
}

Console::~Console() {
  set_log_sink({});
  clear_progress();
}

int Console::rank_of_thread() const noexcept { return rank_ + thread_rank(); }

void Console::set_level(LogLevel level) {
  set_log_sink([this](LogLevel severity, std::string_view message) { hear(severity, message); },
               level);
}

void Console::hear(LogLevel severity, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const bool problem = severity >= LogLevel::warning;
  const std::string message = problem ? shortened(std::string(text)) : printable(text);
  const int rank = rank_of_thread();
  to_rank_log(rank, severity, message);
  if (rank != 0 && !problem) return;
  clear_progress();
  const std::string prefix = rank == 0 ? "" : fmt::format("rank {}: ", rank);
  if (problem) {
    err(fmt::format("{}{}: {}", prefix, severity == LogLevel::error ? "error" : "warning",
                    message));
  } else {
    out(message + '\n');
  }
  if (file_) file_->write(severity, prefix + message);
}

void Console::open_log(const std::filesystem::path& file) {
  if (rank_of_thread() != 0) return;
  const std::lock_guard lock(mutex_);
  file_ = std::make_unique<LogFile>(file, "", [](const std::string& why) {
    err(fmt::format("warning: log.txt is not complete: {}. The run goes on.", why));
  });
  if (!out_failure_.empty()) file_->write(LogLevel::warning, out_failure_);
}

void Console::open_rank_log(const std::filesystem::path& folder) {
  const int rank = rank_of_thread();
  const std::string host = host_name();
  const auto file = folder / fmt::format("rank-{:04}.{}.log", rank, host);
  try {
    make_folder(folder);
    auto log = std::make_unique<LogFile>(
        file, fmt::format("rank {} {} ", rank, host), [file](const std::string& why) {
          err(fmt::format("warning: {} is not complete: {}. The run goes on.", file.string(), why));
        });
    const std::lock_guard lock(mutex_);
    rank_logs_[rank] = std::move(log);
  } catch (const std::exception& error) {
    log(LogLevel::warning,
        fmt::format("there is no log of this rank (log.ranks): {}. The run goes on without it.",
                    error.what()));
  }
}

void Console::to_rank_log(int rank, LogLevel severity, const std::string& text) {
  const auto log = rank_logs_.find(rank);
  if (log == rank_logs_.end()) return;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) log->second->write(severity, line);
}

void Console::note(const std::string& line) {
  const std::lock_guard lock(mutex_);
  to_rank_log(rank_of_thread(), LogLevel::info, line);
}

void Console::note_failure(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const int rank = rank_of_thread();
  if (!rank_logs_.contains(rank)) return;
  to_rank_log(rank, LogLevel::error, "this rank ends with a failure: " + shortened(text));
  const auto calls = last_calls();
  for (std::size_t i = 0; i < calls.size(); ++i)
    to_rank_log(rank, LogLevel::error,
                fmt::format("last call {} of {}: {}", i + 1, calls.size(), calls[i]));
}

void Console::say(const std::string& line) { log(LogLevel::info, line); }

void Console::progress(const std::string& line) {
  if (rank_of_thread() != 0 || !log_enabled(LogLevel::info)) return;
  if (!terminal_) return say(line);
  const std::lock_guard lock(mutex_);
  out(redraw + line.substr(0, terminal_columns()));
  progress_shown_ = true;
  if (file_) file_->write(LogLevel::info, line);
  to_rank_log(0, LogLevel::info, line);
}

void Console::complain(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string message = shortened(text);
  clear_progress();
  err(message);
  if (file_) file_->write(LogLevel::error, message);
}

void Console::clear_progress() {
  if (!progress_shown_) return;
  out(redraw);
  progress_shown_ = false;
}

void Console::err(const std::string& line) { std::fputs((line + '\n').c_str(), stderr); }

void Console::out(const std::string& text) {
  // Afterwards a line that does not fit is dropped at once.
  const std::chrono::milliseconds patience(out_failure_.empty() ? 2000 : 0);
  try {
    write_stdout(text, patience);
  } catch (const Error& error) {
    if (!out_failure_.empty()) return;
    out_failure_ = std::string(error.what()) + ". The run goes on; log.txt has it all.";
    err("warning: " + out_failure_);
    if (file_) file_->write(LogLevel::warning, out_failure_);
  }
}

}  // namespace lockstep::train
