#include <lockstep/autograd/layer_scope.hpp>

namespace lockstep {

const char*& LayerScope::innermost() noexcept {
  thread_local const char* name = nullptr;
  return name;
}

void LayerScope::enter(const char* name) noexcept {
  outer_ = innermost();
  innermost() = name;
  entered_ = true;
}

}  // namespace lockstep
