#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

/// One finding about the launch for the user.
struct Finding {
  enum class Severity : std::uint8_t {
    warning,  ///< the run works, but slower or not as intended
    error,    ///< the run must not start
  };
  Severity severity = Severity::warning;
  std::string about;     ///< name of the check, one word or two: "cores"
  std::string sentence;  ///< the fault and its place
  std::string remedy;    ///< remedy: one sentence or more, ready to follow

  [[nodiscard]] bool is_error() const noexcept { return severity == Severity::error; }
  /// Sentence and remedy.
  [[nodiscard]] std::string text() const { return sentence + ". " + remedy; }
};

using Findings = std::vector<Finding>;

}  // namespace lockstep::train
