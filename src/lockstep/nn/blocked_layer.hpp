#pragma once
#include <typeinfo>

#include <lockstep/nn/module.hpp>

// How built-in containers keep images in channel blocks (tensor/kernels/conv/channel_blocks.hpp)
// from one built-in layer to the next. Whoever writes a Module need not know of it: a class that is
// not a BlockedLayer, or is derived from one, is given plain values by its forward and returns
// such.

namespace lockstep::nn {

/// What a built-in layer of images has beside forward, for containers.
class BlockedLayer {
 public:
  BlockedLayer() = default;
  virtual ~BlockedLayer() = default;
  BlockedLayer(const BlockedLayer&) = delete;
  BlockedLayer& operator=(const BlockedLayer&) = delete;

  /// As forward, but x may be in channel blocks, and so may be the result.
  [[nodiscard]] virtual Variable forward_blocked(const Variable& x) = 0;
  /// Whether that is what the module's own forward does: a class derived from the layer may have
  /// another.
  [[nodiscard]] virtual bool is_all_of(const Module& module) const noexcept = 0;
};

/// What such a layer derives from, naming itself: class ReLU : public Module, public Blocked<ReLU>.
template <class Layer>
class Blocked : public BlockedLayer {
 public:
  [[nodiscard]] bool is_all_of(const Module& module) const noexcept final {
    return typeid(module) == typeid(Layer);
  }
};

/// The module as a BlockedLayer, or null: it takes and returns plain values only.
[[nodiscard]] BlockedLayer* as_blocked_layer(Module& module);

/// Its forward_blocked; of other modules, forward of plain x.
[[nodiscard]] Variable forward_blocked(Module& module, const Variable& x);

}  // namespace lockstep::nn
