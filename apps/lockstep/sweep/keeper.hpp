#pragma once
// Trials that run at the same time.
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "elastic/launcher.hpp"
#include "trial.hpp"

namespace lockstep::sweep {

/// One start of a trial, watched by a process of its own: elastic::Child kills all descendants of
/// its process, and has one child at a time. If this process dies, that one stops the trial, which
/// saves. The calling process must have one thread.
class Keeper {
 public:
  struct Start {
    /// Called in the watching process; `start` names Slurm's step.
    std::function<elastic::Launcher::Command(int start)> command;
    std::function<void(int start)> end_elsewhere;  ///< see elastic::Launcher
    std::vector<int> cores;                        ///< that it is bound to; empty: to none
    std::filesystem::path run_folder, output;      ///< output: a file for its output
    std::string program, deck;                     ///< as its messages name them
  };
  /// Throws Error where the system starts no process.
  explicit Keeper(const Start& start);
  /// Stops it, and waits.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Asks the trial to save and end. May be called often.
  void stop() const noexcept;
  /// How it ended; nothing while it runs.
  [[nodiscard]] std::optional<Ended> ended();

 private:
  pid_t pid_ = -1;
  int answer_ = -1;  ///< reading end of a pipe
};

/// The reason that a program gives on a line "PROGRAM: REASON" or "PROGRAM train: REASON", without
/// the rank in front of it; empty for other lines, and for the one with which it begins.
[[nodiscard]] std::string reason_on(std::string_view line, const std::string& program,
                                    const std::string& deck);

}  // namespace lockstep::sweep
