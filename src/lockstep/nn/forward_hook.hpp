#pragma once
#include <lockstep/autograd/variable.hpp>

namespace lockstep::nn {

class Module;

/// While alive, sees every call of a module on this thread (Module::operator(), call()), as
/// PyTorch's global forward hooks do. after() may replace the result. One at a time; a second one
/// throws Error.
class ForwardHook {
 public:
  ForwardHook();
  virtual ~ForwardHook();
  ForwardHook(const ForwardHook&) = delete;
  ForwardHook& operator=(const ForwardHook&) = delete;

  virtual void before(const Module& module, const Variable& x) = 0;
  virtual void after(const Module& module, Variable& y) = 0;

  /// Whether the hook sees calls of this module's parts: the module then does not fuse them.
  [[nodiscard]] virtual bool sees_parts_of(const Module& /*module*/) const { return true; }
  /// Whether this thread has a hook that sees the parts of `module`.
  [[nodiscard]] static bool is_on_parts_of(const Module& module);

  /// This thread's, or null.
  [[nodiscard]] static ForwardHook* current() noexcept;
};

/// forward(), seen by this thread's hook as a call of `module` with x: for containers whose parts
/// take more than one tensor.
template <class Forward>
Variable call(const Module& module, const Variable& x, const Forward& forward) {
  ForwardHook* const hook = ForwardHook::current();
  if (!hook) return forward();
  hook->before(module, x);
  Variable y = forward();
  hook->after(module, y);
  return y;
}

}  // namespace lockstep::nn
