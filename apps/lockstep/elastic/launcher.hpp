#pragma once
// Starts ranks, and reads the launcher's report of their end.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "child.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

/// Throws InputError if a launcher has started this process: `command` ("lockstep sweep") starts
/// the ranks itself.
void expect_no_launcher(const char* command);

/// The failed rank or node, as far as reported.
struct Blame {
  int rank = -1;
  int pid = 0;
  std::string host;
  int signal = 0;              ///< signal that ended the rank
  bool out_of_memory = false;  ///< reported by Slurm
  std::string failed_node;     ///< reported by Slurm
  bool not_started = false;    ///< srun could not start the job
};

/// Parses the output of MPICH's mpiexec and of srun: the first rank that ended badly.
class LauncherWords {
 public:
  void line(std::string_view text);
  [[nodiscard]] const Blame& blame() const noexcept { return blame_; }

 private:
  Blame blame_;
};

/// The first line of a launcher's output that has a letter: MPICH draws rules of "=". Later lines
/// follow from it.
[[nodiscard]] std::string first_words(const std::string& output);

/// MPICH's mpiexec by the name that is its alone where several MPIs are installed, else `mpiexec`.
[[nodiscard]] std::string usual_mpiexec();

/// A launcher's command line, split at blanks. Throws InputError if it is blank, or if its program
/// cannot be executed.
[[nodiscard]] std::vector<std::string> launcher_words(const std::string& launcher);

/// MPICH's mpiexec, or srun within a Slurm allocation.
class Launcher {
 public:
  /// `words`: the launcher and its own options; a program named srun is taken for srun.
  /// `names_hosts`: ranks are placed on named hosts, not simply on this machine.
  Launcher(std::vector<std::string> words, bool names_hosts);

  struct Command {
    std::vector<std::string> words;
    Environment environment;
  };
  /// Starts `app` on `placement`; `start` numbers the starts of this supervisor. Throws InputError
  /// if the command line is too long for the system.
  [[nodiscard]] Command command(const Placement& placement, int start,
                                const std::vector<std::string>& app) const;

  /// A trivial command on `host`.
  [[nodiscard]] std::vector<std::string> probe(const std::string& host) const;
  /// The launcher's message if it cannot start a process on `host` within `limit_s`; nothing if it
  /// can.
  [[nodiscard]] std::optional<std::string> why_silent(const std::string& host,
                                                      double limit_s) const;
  static constexpr double answers_within_s = 10;

  /// Cleans up other machines after the launcher was killed: srun's step outlives srun.
  void end_elsewhere(int start) const;

  [[nodiscard]] bool is_srun() const noexcept { return is_srun_; }
  [[nodiscard]] bool names_hosts() const noexcept { return names_hosts_; }

 private:
  std::vector<std::string> words_;
  bool names_hosts_, is_srun_;
};

}  // namespace lockstep::elastic
