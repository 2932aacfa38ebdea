#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <lockstep/base/log.hpp>

namespace lockstep::train {

/// A log for people that grows by lines: "2026-11-27 13:22:46.035 info TEXT". Each line is in the
/// file when write() returns. Lines that cannot be written, for example to a full disk, wait in
/// memory (1 MiB at most; then they are dropped) and are written with a later one. Not thread-safe.
class LogFile {
 public:
  /// Appends behind the lines of earlier starts, and ends one that a killed process left
  /// unfinished. A symbolic link at `file` is replaced. `prefix` stands between time and level.
  /// Calls `warn` with the reason when lines wait, once until they are written. Throws FileError.
  LogFile(const std::filesystem::path& file, const std::string& prefix,
          std::function<void(const std::string& why)> warn);
  ~LogFile();  ///< writes waiting lines, if it can
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Never throws for the file's sake.
  void write(LogLevel level, std::string_view line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
