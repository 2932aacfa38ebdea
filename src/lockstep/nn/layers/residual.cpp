#include <lockstep/nn/layers/residual.hpp>

#include <utility>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/nn/forward_hook.hpp>

namespace lockstep::nn {

Residual::Residual(std::shared_ptr<Module> main, std::shared_ptr<Module> shortcut)
    : main_(register_module("main", std::move(main))),
      shortcut_(register_module("shortcut", std::move(shortcut))) {}

Variable Residual::forward(const Variable& x) {
  if (ForwardHook::current()) return (*main_)(x) + (*shortcut_)(x);  // which is to see both
  return from_channel_blocks(forward_blocked(x));
}

Variable Residual::forward_blocked(const Variable& x) {
  const Variable a = nn::forward_blocked(*main_, x), b = nn::forward_blocked(*shortcut_, x);
  if (a.data().layout() == b.data().layout() && a.shape() == b.shape()) return a + b;
  return from_channel_blocks(a) + from_channel_blocks(b);
}

}  // namespace lockstep::nn
