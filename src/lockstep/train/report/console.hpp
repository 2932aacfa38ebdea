#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/base/log.hpp>

namespace lockstep::train {

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

  /// A line for the user (rank 0's only).
  void say(const std::string& line);
  /// A line of progress: redrawn in place on a terminal and cut to its width; a plain line
  /// elsewhere.
  void progress(const std::string& line);
  /// A failure, to stderr and log.txt, whatever the rank and level.
  void complain(const std::string& text);

 private:
  struct Loggers;
  [[nodiscard]] int rank_of_thread() const noexcept;  ///< rank of the calling thread
  void hear(LogLevel severity, std::string_view text);
  void clear_progress();
  void out(const std::string& text);

  int rank_;
  bool terminal_;
  std::mutex mutex_;  ///< guards the members below
  std::unique_ptr<Loggers> loggers_;
  bool progress_shown_ = false;
  std::string out_failure_;  ///< reason of the first failed write to stdout
  bool log_failed_ = false;  ///< a write to log.txt has failed
};

}  // namespace lockstep::train
