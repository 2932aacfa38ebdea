#pragma once
#include <string>

namespace lockstep::test {

/// The message of the E thrown by `f`.
template <class E, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace lockstep::test
