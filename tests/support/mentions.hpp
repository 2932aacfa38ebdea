#pragma once
#include <string>

namespace lockstep::test {

/// Whether a message contains `part`.
inline bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace lockstep::test
