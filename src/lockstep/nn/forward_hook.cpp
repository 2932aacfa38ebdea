#include <lockstep/nn/forward_hook.hpp>

#include <lockstep/base/error.hpp>

namespace lockstep::nn {
namespace {

ForwardHook*& slot() noexcept {
  thread_local ForwardHook* hook = nullptr;
  return hook;
}

}  // namespace

ForwardHook::ForwardHook() {
  if (slot()) throw Error("this thread already has a forward hook; end that one first");
  slot() = this;
}

ForwardHook::~ForwardHook() { slot() = nullptr; }

bool ForwardHook::is_on_parts_of(const Module& module) {
  return slot() && slot()->sees_parts_of(module);
}

ForwardHook* ForwardHook::current() noexcept { return slot(); }

}  // namespace lockstep::nn
