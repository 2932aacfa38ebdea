#include <lockstep/nn/blocked_layer.hpp>

#include <typeindex>
#include <unordered_map>

#include <lockstep/autograd/functional/conv.hpp>

namespace lockstep::nn {
namespace {

/// Complete before main() and constant afterwards.
std::unordered_map<std::type_index, BlockedForward>& blocked_layers() {
  static std::unordered_map<std::type_index, BlockedForward> layers;
  return layers;
}

}  // namespace

Variable own_forward(Module& module, const Variable& x) { return module.forward(x); }

bool add_blocked_layer(const std::type_info& layer, BlockedForward forward) {
  return blocked_layers().emplace(layer, forward).second;
}

Variable forward_blocked(Module& module, const Variable& x) {
  const auto& layers = blocked_layers();
  const auto layer = layers.find(typeid(module));
  return layer == layers.end() ? module.forward(from_channel_blocks(x)) : layer->second(module, x);
}

}  // namespace lockstep::nn
