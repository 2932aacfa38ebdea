#include <lockstep/train/report/console.hpp>

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/printable.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/io/own_file.hpp>
#include <lockstep/train/report/standard_output.hpp>

namespace lockstep::train {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

/// Moves to the beginning of the terminal's line and clears it.
constexpr const char* redraw = "\r\033[K";

/// Columns for one line of the terminal: a wrapped line could not be redrawn. The last column stays
/// free, because some terminals wrap there at once.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : 80U) - 1U;
}

}  // namespace

/// Two of a message's three destinations: stderr and log.txt; the third is stdout.
struct Console::Loggers {
  spdlog::logger err{"err", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::unique_ptr<spdlog::logger> file;
};

Console::Console(int rank)
    : rank_(rank), terminal_(isatty(STDOUT_FILENO) == 1), loggers_(std::make_unique<Loggers>()) {
  loggers_->err.set_pattern("%v");
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
  if (rank != 0 && !problem) return;
  clear_progress();
  const auto level = spdlog_level(severity);
  const std::string prefix = rank == 0 ? "" : fmt::format("rank {}: ", rank);
  if (problem) {
    loggers_->err.log(level, "{}{}: {}", prefix, spdlog::level::to_string_view(level), message);
  } else {
    out(message + '\n');
  }
  if (loggers_->file) loggers_->file->log(level, "{}{}", prefix, message);
}

void Console::open_log(const std::filesystem::path& file) {
  if (rank_of_thread() != 0) return;
  const std::lock_guard lock(mutex_);
  remove_link(file);
  loggers_->file = std::make_unique<spdlog::logger>(
      "file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()));
  loggers_->file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  loggers_->file->set_level(spdlog::level::debug);
  loggers_->file->flush_on(spdlog::level::debug);
  loggers_->file->set_error_handler([this](const std::string& why) {
    if (std::exchange(log_failed_, true)) return;
    loggers_->err.warn("warning: log.txt is not complete: {}. The run goes on.", why);
  });
  if (!out_failure_.empty()) loggers_->file->warn(out_failure_);
}

void Console::say(const std::string& line) { log(LogLevel::info, line); }

void Console::progress(const std::string& line) {
  if (rank_of_thread() != 0 || !log_enabled(LogLevel::info)) return;
  if (!terminal_) return say(line);
  const std::lock_guard lock(mutex_);
  out(redraw + line.substr(0, terminal_columns()));
  progress_shown_ = true;
  if (loggers_->file) loggers_->file->info(line);
}

void Console::complain(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string message = shortened(text);
  clear_progress();
  loggers_->err.critical(message);
  loggers_->err.flush();
  if (loggers_->file) loggers_->file->error(message);
}

void Console::clear_progress() {
  if (!progress_shown_) return;
  out(redraw);
  progress_shown_ = false;
}

void Console::out(const std::string& text) {
  // Afterwards a line that does not fit is dropped at once.
  const std::chrono::milliseconds patience(out_failure_.empty() ? 2000 : 0);
  try {
    write_stdout(text, patience);
  } catch (const Error& error) {
    if (!out_failure_.empty()) return;
    out_failure_ = std::string(error.what()) + ". The run goes on; log.txt has it all.";
    loggers_->err.warn("warning: {}", out_failure_);
    if (loggers_->file) loggers_->file->warn(out_failure_);
  }
}

}  // namespace lockstep::train
