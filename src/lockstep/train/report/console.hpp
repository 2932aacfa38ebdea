#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/base/log.hpp>

namespace lockstep::train {

/// What a person sees of a run: one for each process. Rank 0 writes to the terminal (stdout;
/// warnings and errors to stderr) and, once opened, to log.txt; another rank writes only warnings
/// and errors, with its rank before them. While alive it is the library's log sink. A terminal or
/// pipe that takes no more, or whose reader has gone, ends nothing: that is told once, on stderr
/// and in log.txt, where the rest stands. Of a warning or failure that is very long its middle is
/// left out (shortened). Thread-safe.
class Console {
 public:
  /// `rank`: this process's, or the first of those that are its threads (base/rank.hpp).
  explicit Console(int rank);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void set_level(LogLevel level);
  /// From now on everything said is also appended to `file`.
  void open_log(const std::filesystem::path& file);

  /// A line for everybody (rank 0's only).
  void say(const std::string& line);
  /// A line that tells how far the run is: redrawn in place on a terminal and cut to its width, a
  /// plain line elsewhere.
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
  std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<Loggers> loggers_;
  bool progress_shown_ = false;
  std::string out_failure_;  ///< why stdout took something not, the first time
  bool log_failed_ = false;  ///< log.txt took something not
};

}  // namespace lockstep::train
