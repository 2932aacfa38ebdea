#pragma once
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep {

/// `pointer`, unless it is null: then throws Error "`call`: `what` is null".
template <class Pointer>
Pointer expect_given(const char* call, const char* what, Pointer pointer) {
  if (!pointer) {
    throw Error(std::string(call) + ": " + what +
                " is null: it was never made, or it was moved from. Make it first");
  }
  return pointer;
}

}  // namespace lockstep
