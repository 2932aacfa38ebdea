#pragma once
#include <stdexcept>
#include <string>

namespace lockstep {

/// The exit code with which an application's process ends for this reason.
/// The numbers are part of the command-line contract (docs/guide/running.md).
enum class ExitCode : int {
  done = 0,
  failure = 1,        ///< out of memory, NaN loss, internal error
  bad_input = 2,      ///< command line, deck or data
  communication = 3,  ///< a peer failed or a deadline passed
  checkpoint = 4,     ///< checkpoint unusable, or the final save failed
  requeue = 75,       ///< stopped early on request; the state was saved
};

/// Root of everything Lockstep throws. The message is one or more sentences: what happened, where,
/// what to do. The library throws; only train::App prints and ends the process.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::failure)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The user's command line, deck or data is wrong.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message) : Error(message, ExitCode::bad_input) {}
};

/// Shapes, dtypes or devices of an operation's operands do not fit; the message prints them.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A peer, the network or MPI failed.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(message, ExitCode::communication) {}
};

/// A communication did not end before its deadline.
class TimeoutError : public CommError {
 public:
  using CommError::CommError;
};

/// A checkpoint could not be written, read or believed.
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message) : Error(message, ExitCode::checkpoint) {}
};

/// A message as it is printed: of one longer than 2000 bytes, e.g. with quoted damaged input, the
/// beginning and the end, which holds the remedy.
[[nodiscard]] std::string shortened(const std::string& message);

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}

}  // namespace lockstep

/// Checks our own logic (never user input) in builds without NDEBUG; throws lockstep::Error.
#ifdef NDEBUG
#define LOCKSTEP_ASSERT(condition) static_cast<void>(0)
#else
#define LOCKSTEP_ASSERT(condition)    \
  ((condition) ? static_cast<void>(0) \
               : ::lockstep::detail::assertion_failed(#condition, __FILE__, __LINE__))
#endif
