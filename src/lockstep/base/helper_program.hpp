#pragma once
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/descriptor.hpp>

namespace lockstep {

/// Options of a HelperProgram.
struct HelperOptions {
  std::filesystem::path folder = {};  ///< working directory; empty: the current one
  bool with_errors = false;           ///< its stderr is part of its output, not thrown away
};

/// A short program (gnuplot, squeue, a launcher that only tries a host) that runs beside this one,
/// started by start_program(). It and its children are a separate process group. Local: no other
/// rank waits for it.
class HelperProgram {
 public:
  /// One that cannot be started has ended, with code 127.
  explicit HelperProgram(const std::vector<std::string>& command,
                         const HelperOptions& options = {});
  /// Kills it and its group, if it has not ended.
  ~HelperProgram();
  HelperProgram(const HelperProgram&) = delete;
  HelperProgram& operator=(const HelperProgram&) = delete;

  /// Reads its output until it ends or `most` has passed. True if it has ended.
  bool wait(Seconds most);
  /// Its output so far; above 4 MiB the end of it.
  [[nodiscard]] const std::string& output() const noexcept { return output_; }
  /// After it has ended: 128 + n after signal n, 127 if there is no such program, -1 if unknown.
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] int pid() const noexcept { return pid_; }

 private:
  void read_some(Seconds most);

  int pid_ = -1;
  Descriptor reading_;  // of the pipe that it talks into
  std::string output_;
  bool ended_ = false;
  int code_ = -1;
};

/// How a helper program ended.
struct HelperEnd {
  enum class Kind : std::uint8_t {
    not_started,  ///< there is no such program, or no process
    late,         ///< it did not end in its time, or nobody wanted to know any more: killed
    failed,       ///< by its exit code, or a signal
    good
  };
  Kind kind = Kind::not_started;
  std::string output;  ///< see HelperProgram
};

/// Runs a program for at most `limit_s`, or until `stop` is requested.
[[nodiscard]] HelperEnd run_helper(const std::vector<std::string>& command, double limit_s,
                                   const HelperOptions& options = {},
                                   const std::stop_token& stop = {});

/// Whether the child `pid` of this process is a helper program that has not been waited for: others
/// who look after children leave it alone. Waits, at most a second, for those that are just being
/// started.
[[nodiscard]] bool is_helper_program(int pid);

/// The exit code in waitpid()'s status: 128 + n after signal n.
[[nodiscard]] int exit_code_of(int status) noexcept;

}  // namespace lockstep
