#pragma once
#include <string>

namespace lockstep::test {

/// What the E says that `f` throws.
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
