#pragma once
// Processes that this one starts.
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/start_program.hpp>

namespace lockstep::elastic {

/// A command in a process group of its own, with /dev/null to read from. What it prints is passed
/// on, unless it is only listened to, and told line by line. If this process dies, however, the
/// command gets SIGTERM, of which mpiexec tells its ranks: they save and end. Nobody reads then
/// what it prints.
///
/// What it starts in its turn, in whatever session, is known to belong to it: a launcher's ranks
/// on this machine are in sessions of their own. So one child at a time, apart from helper
/// programs.
class Child {
 public:
  using Listener = std::function<void(std::string_view line)>;
  enum class Output : std::uint8_t { passed_on, listened_to };

  /// Throws Error where the system starts no process.
  Child(const std::vector<std::string>& command, const Environment& environment, Listener listener,
        Output output = Output::passed_on);
  /// Kills what is left.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Passes on what is printed until the command has ended or `most` is over. True if it has ended.
  bool wait(Seconds most);
  /// Of the command, once it has ended: 128 + n after signal n.
  [[nodiscard]] int code() const noexcept { return code_; }

  /// To the command alone: launchers pass signals on.
  void signal(int number) const noexcept;
  /// SIGKILL for the command and all that came of it here, until nothing of it is left, or what is
  /// left has not died for ten seconds. How many there were beside the command.
  int kill_all();

 private:
  void relay(Seconds most);
  void drain();
  void pass_on(std::size_t stream, std::string_view text);

  pid_t pid_ = -1;
  std::array<int, 2> ends_{-1, -1};  ///< its stdout and stderr
  std::array<std::string, 2> lines_;
  Listener listener_;
  Output output_;
  bool ended_ = false;
  int code_ = -1;
};

/// Which of `processes` have started one that is alive, on this machine.
[[nodiscard]] std::vector<pid_t> parents_of_living(const std::vector<pid_t>& processes);

}  // namespace lockstep::elastic
