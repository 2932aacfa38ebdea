#pragma once
// How ranks are started, and what the one who starts them says about their end.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "child.hpp"
#include "placement.hpp"

namespace lockstep::elastic {

/// Who failed, as far as somebody said so.
struct Blame {
  int rank = -1;
  int pid = 0;
  std::string host;
  int signal = 0;              ///< that ended the rank
  bool out_of_memory = false;  ///< said Slurm
  std::string failed_node;     ///< said Slurm
  bool not_started = false;    ///< srun could not
};

/// Reads the words of MPICH's mpiexec and of srun: the first rank that ended badly.
class LauncherWords {
 public:
  void line(std::string_view text);
  [[nodiscard]] const Blame& blame() const noexcept { return blame_; }

 private:
  Blame blame_;
};

/// Of what a launcher printed: the first line that says something. What follows from it follows.
[[nodiscard]] std::string first_words(const std::string& output);

/// mpiexec, or srun within an allocation of Slurm's.
class Launcher {
 public:
  /// `words`: the launcher with options of its own; it is taken for srun if its name is that.
  /// `names_hosts`: ranks are on the hosts of a placement, not simply on this machine.
  Launcher(std::vector<std::string> words, bool names_hosts);

  struct Command {
    std::vector<std::string> words;
    Environment environment;
  };
  /// Starts `app` as `placement` says; `start` numbers the starts of this supervisor. Throws
  /// InputError where the system takes no command line that is so long.
  [[nodiscard]] Command command(const Placement& placement, int start,
                                const std::vector<std::string>& app) const;

  /// A command that does nothing on `host`.
  [[nodiscard]] std::vector<std::string> probe(const std::string& host) const;
  /// Why nothing can be started on `host` within `limit_s`, in the launcher's own words; nothing if
  /// it can.
  [[nodiscard]] std::optional<std::string> why_silent(const std::string& host,
                                                      double limit_s) const;
  static constexpr double answers_within_s = 10;

  /// After the launcher was killed: what it may have left on other machines. srun's step goes on
  /// without srun.
  void end_elsewhere(int start) const;

  [[nodiscard]] bool is_srun() const noexcept { return is_srun_; }
  [[nodiscard]] bool names_hosts() const noexcept { return names_hosts_; }

 private:
  std::vector<std::string> words_;
  bool names_hosts_, is_srun_;
};

}  // namespace lockstep::elastic
