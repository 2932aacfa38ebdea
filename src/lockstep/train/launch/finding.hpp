#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

/// One thing about the launch that the user should know.
struct Finding {
  enum class Severity : std::uint8_t {
    warning,  ///< the run works: slower, or not as meant
    error,    ///< the run must not start
  };
  Severity severity = Severity::warning;
  std::string about;     ///< which check found it, one word or two: "cores"
  std::string sentence;  ///< what is the matter, and where
  std::string remedy;    ///< one sentence or more, ready to follow

  [[nodiscard]] bool is_error() const noexcept { return severity == Severity::error; }
  /// Sentence and remedy.
  [[nodiscard]] std::string text() const { return sentence + ". " + remedy; }
};

using Findings = std::vector<Finding>;

}  // namespace lockstep::train
