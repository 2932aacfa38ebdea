#include <lockstep/train/console.hpp>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lockstep/base/error.hpp>
#include <lockstep/train/standard_output.hpp>

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

/// To the beginning of the terminal's line, and nothing right of it.
constexpr const char* redraw = "\r\033[K";

/// Characters that fit on one line of the terminal: a line that wraps could not be redrawn. The
/// last column stays free, because there some terminals wrap at once.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : 80U) - 1U;
}

}  // namespace

/// Two of the three that a message goes to, beside stdout: stderr and log.txt.
struct Console::Loggers {
  spdlog::logger err{"err", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::unique_ptr<spdlog::logger> file;
};

Console::Console(int rank, int ranks)
    : loggers_(std::make_unique<Loggers>()),
      rank_(rank),
      ranks_(ranks),
      terminal_(isatty(STDOUT_FILENO) == 1) {
  loggers_->err.set_pattern(
      rank_ == 0 || ranks_ == 1 ? "%l: %v" : "rank " + std::to_string(rank_) + ": %l: %v");
  set_level(LogLevel::info);
}

Console::~Console() {
  clear_progress();
  set_log_sink({});
}

void Console::set_level(LogLevel level) {
  const auto sink = [this](LogLevel severity, std::string_view message) {
    const bool problem = severity >= LogLevel::warning;
    if (rank_ != 0 && !problem) return;
    clear_progress();
    if (problem) {
      loggers_->err.log(spdlog_level(severity), message);
    } else {
      out(std::string(message) + '\n');
    }
    if (loggers_->file) loggers_->file->log(spdlog_level(severity), message);
  };
  set_log_sink(sink, level);
}

void Console::open_log(const std::filesystem::path& file) {
  if (rank_ != 0) return;
  loggers_->file = std::make_unique<spdlog::logger>(
      "file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()));
  loggers_->file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  loggers_->file->set_level(spdlog::level::debug);
  loggers_->file->flush_on(spdlog::level::debug);
  if (!out_failure_.empty()) loggers_->file->warn(out_failure_);
}

void Console::say(const std::string& line) { log(LogLevel::info, line); }

void Console::progress(const std::string& line) {
  if (rank_ != 0 || !log_enabled(LogLevel::info)) return;
  if (!terminal_) return say(line);
  out(redraw + line.substr(0, terminal_columns()));
  progress_shown_ = true;
  if (loggers_->file) loggers_->file->info(line);
}

void Console::complain(const std::string& message) {
  clear_progress();
  loggers_->err.set_pattern("%v");
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
  try {
    write_stdout(text);
  } catch (const Error& error) {
    if (!out_failure_.empty()) return;
    out_failure_ = std::string(error.what()) + ". The run goes on; log.txt has it all.";
    loggers_->err.warn(out_failure_);
    if (loggers_->file) loggers_->file->warn(out_failure_);
  }
}

}  // namespace lockstep::train
