#pragma once
#include <algorithm>
#include <cctype>
#include <string>

namespace lockstep {

/// `text` with its ASCII letters as small ones, for endings of files' names.
[[nodiscard]] inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace lockstep
