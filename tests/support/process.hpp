#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

/// How a command ended.
struct Finished {
  int exit_code = -1;  ///< 128 + n if signal n ended it; 124 if it was stopped after `limit_s`
  std::string output;  ///< stdout and stderr together
  double seconds = 0;

  [[nodiscard]] bool says(const std::string& text) const {
    return output.find(text) != std::string::npos;
  }

  /// Whether a job, one rank of which ended with `code` and without MPI_Finalize, was reported with
  /// that code. MPICH's mpiexec ends the other ranks by SIGKILL, and sometimes reports that (3
  /// times in 140 under AddressSanitizer). Or it sees a rank's connection close before the rank's
  /// end, and reports 1 (once in 300 jobs of a program that calls MPI_Init and MPI_Barrier and
  /// returns 2).
  [[nodiscard]] bool ended_with(int code) const {
    return exit_code == code || (exit_code == 9 && says("Killed (signal 9)")) ||
           (exit_code == 1 && says("Hangup (signal 1)"));
  }
};

/// Runs a program (found in PATH) to its end and reads its output. After `limit_s` its whole
/// process group is killed: a test of a hang must not hang.
[[nodiscard]] Finished run(const std::vector<std::string>& command,
                           const std::vector<std::pair<std::string, std::string>>& environment = {},
                           double limit_s = 240);

/// The same on a terminal of its own, `columns` wide; the output is what reaches the screen: "\r\n"
/// ends a line.
[[nodiscard]] Finished run_on_terminal(const std::vector<std::string>& command, int columns,
                                       double limit_s = 60);

/// {"mpiexec", "-n", "2", build/apps/classify, ...}: an application of this build on `ranks` ranks.
[[nodiscard]] std::vector<std::string> app(int ranks, const std::string& name,
                                           const std::vector<std::string>& arguments);

/// `command` for a shell: each word in quotes.
[[nodiscard]] std::string quoted(const std::vector<std::string>& command);

/// A file of the sources: source("inputs/synthetic.toml").
[[nodiscard]] std::string source(const std::string& path);

/// An executable of this build: built("apps/lockstep").
[[nodiscard]] std::string built(const std::string& path);

/// A new empty folder, removed with its contents at the end of the scope.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file in it and returns its path.
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

[[nodiscard]] std::string read_file(const std::string& path);
/// The same for a file in /proc: "" if its process has ended, or ends meanwhile.
[[nodiscard]] std::string read_of_process(const std::string& path);

/// Seconds since a program wrote `path` to mark a moment. Throws if it never did.
[[nodiscard]] double seconds_since_written(const std::string& path);

}  // namespace lockstep::test
