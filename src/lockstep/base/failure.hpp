#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <lockstep/base/error.hpp>

// An exception's fields: for code that acts on a failure instead of printing it.

namespace lockstep {

/// The kind of a failure, for programs. The numbers are stored in flight recorder files.
enum class FailureKind : std::uint8_t {
  other = 0,
  out_of_memory = 1,
};

/// Memory, or another resource of the machine that a limit bounds, could not be had.
class OutOfMemoryError : public Error {
 public:
  explicit OutOfMemoryError(const std::string& message) : Error(message) {}
};

/// The rank that an error's message begins with.
struct RankOfError {
  int rank = -1;
  std::string host{};  ///< empty if the message does not name it
};

/// An E whose message begins with its rank: "rank 3 of 8 (node12): all_reduce(sum) #17 ...".
template <class E>
class ErrorOnRank : public E, public RankOfError {
 public:
  template <class... Arguments>
  explicit ErrorOnRank(RankOfError of, const Arguments&... arguments)
      : E(arguments...), RankOfError(std::move(of)) {}
};

/// A rank's report of an exception.
struct Failure {
  std::string message;
  ExitCode code = ExitCode::failure;
  FailureKind kind = FailureKind::other;
  int rank = -1;  ///< the failed rank, if known; the message begins with it
  std::string host{};

  /// For packed().
  static auto fields(auto& self) {
    return std::tie(self.message, self.code, self.kind, self.rank, self.host);
  }
};

/// Of whatever is being handled in a catch block.
[[nodiscard]] Failure current_failure();

/// Runs `part`. Returns its exception; empty if it returned.
template <class Part>
[[nodiscard]] std::optional<Failure> failure_of(const Part& part) {
  try {
    part();
    return std::nullopt;
  } catch (...) {
    return current_failure();
  }
}

}  // namespace lockstep
