#include <lockstep/train/report/log_file.hpp>

#include <spdlog/pattern_formatter.h>

#include <utility>

#include <lockstep/io/appended_file.hpp>
#include <lockstep/io/own_file.hpp>

namespace lockstep::train {
namespace {

constexpr std::size_t most_unwritten = std::size_t{1} << 20;

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

/// The file, and an end for a line that a killed process has left unfinished.
AppendedFile opened(const std::filesystem::path& path) {
  remove_link(path);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return {File::create_new(path), 0};
  File file = File::open_for_writing(path);
  const std::int64_t end = file.size();
  char last = '\n';
  if (end > 0) File::open_for_reading(path).read_at(end - 1, &last, 1);
  AppendedFile log(std::move(file), end);
  if (last != '\n') log.add("\n");
  return log;
}

}  // namespace

struct LogFile::State {
  AppendedFile file;
  spdlog::pattern_formatter formatter;
  std::function<void(const std::string& why)> warn;
  bool is_warned_of = false;

  void flush() {
    try {
      file.flush();
      is_warned_of = false;
    } catch (const FileError& error) {
      if (!std::exchange(is_warned_of, true)) warn(error.what());
    }
  }
};

LogFile::LogFile(const std::filesystem::path& file, const std::string& prefix,
                 std::function<void(const std::string& why)> warn)
    : state_(new State{
          .file = opened(file),
          .formatter = spdlog::pattern_formatter("%Y-%m-%d %H:%M:%S.%e " + prefix + "%l %v"),
          .warn = std::move(warn)}) {}

LogFile::~LogFile() { state_->flush(); }

void LogFile::write(LogLevel level, std::string_view line) {
  if (state_->file.unwritten() > most_unwritten) state_->file.drop();
  spdlog::memory_buf_t text;
  state_->formatter.format(
      spdlog::details::log_msg("", spdlog_level(level),
                               spdlog::string_view_t(line.data(), line.size())),
      text);
  state_->file.add(std::string_view(text.data(), text.size()));
  state_->flush();
}

}  // namespace lockstep::train
