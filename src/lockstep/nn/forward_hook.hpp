#pragma once
#include <lockstep/autograd/variable.hpp>

namespace lockstep::nn {

class Module;

/// While alive, sees every call of a module on this thread (Module::operator()), as PyTorch's
/// global forward hooks do. One at a time; a second one throws Error.
class ForwardHook {
 public:
  ForwardHook();
  virtual ~ForwardHook();
  ForwardHook(const ForwardHook&) = delete;
  ForwardHook& operator=(const ForwardHook&) = delete;

  virtual void before(const Module& module, const Variable& x) = 0;
  virtual void after(const Module& module, const Variable& y) = 0;

  /// This thread's, or null.
  [[nodiscard]] static ForwardHook* current() noexcept;
};

}  // namespace lockstep::nn
