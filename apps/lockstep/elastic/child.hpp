#pragma once
// Child processes.
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
/// Its descendants are found in any session: a launcher's ranks on this machine have sessions of
/// their own. Therefore only one child may live at a time, apart from helper programs.
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

  /// Passes on the output until the command has ended or `most` has passed. True if the command has
  /// ended.
  bool wait(Seconds most);
  /// Exit code of the command, once it has ended: 128 + n after signal n.
  [[nodiscard]] int code() const noexcept { return code_; }

  /// Signals the command alone: launchers pass signals on.
  void signal(int number) const noexcept;
  /// Sends SIGKILL to the command and all its descendants here until none is left, or those left
  /// have survived for ten seconds; to no helper program. Returns the number of processes other
  /// than the command.
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

/// The members of `processes` with a living child on this machine.
[[nodiscard]] std::vector<pid_t> parents_of_living(const std::vector<pid_t>& processes);

}  // namespace lockstep::elastic
