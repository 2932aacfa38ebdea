#include <lockstep/nn/blocked_layer.hpp>

#include <lockstep/autograd/functional/conv.hpp>

namespace lockstep::nn {

BlockedLayer* as_blocked_layer(Module& module) {
  auto* const layer = dynamic_cast<BlockedLayer*>(&module);
  return layer && layer->is_all_of(module) ? layer : nullptr;
}

Variable forward_blocked(Module& module, const Variable& x) {
  if (BlockedLayer* const layer = as_blocked_layer(module)) return layer->forward_blocked(x);
  return module.forward(from_channel_blocks(x));
}

}  // namespace lockstep::nn
