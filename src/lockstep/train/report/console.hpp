#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/base/log.hpp>

namespace lockstep::train {

class LogFile;

/// Output of a run for people; one object per process. Rank 0 writes to the terminal (stdout;
/// warnings and errors to stderr) and, once opened, to log.txt. Another rank writes only warnings
/// and errors, with its rank in front. While it lives, this is the library's log sink. A terminal
/// or pipe that accepts no output, or whose reader has gone, ends nothing: this is reported once on
/// stderr and in log.txt, which has the rest. The middle of a very long warning or failure is left
/// out (shortened). Thread-safe.
class Console {
 public:
  /// `rank`: this process's, or the first of its threads' ranks (base/rank.hpp).
  explicit Console(int rank);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void set_level(LogLevel level);
  /// From now on all messages also go to `file`.
  void open_log(const std::filesystem::path& file);

  /// From now on the calling rank's messages, of any level, also go to a log of its own in
  /// `folder`, behind those of earlier starts: rank-0003.HOST.log. Each line has time, rank and
  /// host. A log that cannot be written is a warning.
  void open_rank_log(const std::filesystem::path& folder);
  /// A line for the calling rank's own log alone.
  void note(const std::string& line);
  /// The failure that the calling rank ends with, and its last calls, for its own log alone.
  void note_failure(const std::string& text);

  /// A line for the user (rank 0's only).
  void say(const std::string& line);
  /// A line of progress: redrawn in place on a terminal and cut to its width; a plain line
  /// elsewhere.
  void progress(const std::string& line);
  /// A failure, to stderr and log.txt, whatever the rank and level.
  void complain(const std::string& text);

 private:
  [[nodiscard]] int rank_of_thread() const noexcept;  ///< rank of the calling thread
  void hear(LogLevel severity, std::string_view text);
  /// To the log of that rank, if it has one, line by line.
  void to_rank_log(int rank, LogLevel severity, const std::string& text);
  void clear_progress();
  void out(const std::string& text);
  static void err(const std::string& line);

  int rank_;
  bool terminal_;
  std::mutex mutex_;               ///< guards the members below
  std::unique_ptr<LogFile> file_;  ///< log.txt
  bool progress_shown_ = false;
  std::string out_failure_;  ///< reason of the first failed write to stdout
  std::map<int, std::unique_ptr<LogFile>> rank_logs_;
};

}  // namespace lockstep::train
