#include <lockstep/train/console.hpp>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>

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

}  // namespace

/// Three sinks of one message: stdout, stderr, log.txt.
struct Console::Loggers {
  spdlog::logger out{"out", std::make_shared<spdlog::sinks::stdout_sink_mt>()};
  spdlog::logger err{"err", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::unique_ptr<spdlog::logger> file;
};

Console::Console(int rank, int ranks)
    : loggers_(std::make_unique<Loggers>()),
      rank_(rank),
      ranks_(ranks),
      terminal_(isatty(STDOUT_FILENO) == 1) {
  loggers_->out.set_pattern("%v");
  loggers_->err.set_pattern(
      rank_ == 0 || ranks_ == 1 ? "%l: %v" : "rank " + std::to_string(rank_) + ": %l: %v");
  set_level(LogLevel::info);
}

Console::~Console() {
  clear_progress();
  set_log_sink({});
  loggers_->out.flush();
}

void Console::set_level(LogLevel level) {
  const auto sink = [this](LogLevel severity, std::string_view message) {
    const bool problem = severity >= LogLevel::warning;
    if (rank_ != 0 && !problem) return;
    clear_progress();
    (problem ? loggers_->err : loggers_->out).log(spdlog_level(severity), message);
    loggers_->out.flush();
    if (loggers_->file) loggers_->file->log(spdlog_level(severity), message);
  };
  loggers_->out.set_level(spdlog::level::debug);
  set_log_sink(sink, level);
}

void Console::open_log(const std::filesystem::path& file) {
  if (rank_ != 0) return;
  loggers_->file = std::make_unique<spdlog::logger>(
      "file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()));
  loggers_->file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  loggers_->file->set_level(spdlog::level::debug);
  loggers_->file->flush_on(spdlog::level::debug);
}

void Console::say(const std::string& line) { log(LogLevel::info, line); }

void Console::progress(const std::string& line) {
  if (rank_ != 0 || !log_enabled(LogLevel::info)) return;
  if (!terminal_) return say(line);
  std::fprintf(stdout, "\r\033[K%s", line.c_str());
  std::fflush(stdout);
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
  std::fputs("\r\033[K", stdout);
  std::fflush(stdout);
  progress_shown_ = false;
}

}  // namespace lockstep::train
