#pragma once
#include <typeinfo>

#include <lockstep/nn/module.hpp>

// How built-in containers keep images in channel blocks (tensor/kernels/conv/channel_blocks.hpp)
// from one built-in layer to the next. Not a public header: a module whose class is not known here,
// or is derived from one that is, is given plain values by its forward, and returns such.

namespace lockstep::nn {

/// As the module's forward, but x may be in channel blocks, and so may be the result.
using BlockedForward = Variable (*)(Module& module, const Variable& x);

/// Its own forward, where that is such a one.
[[nodiscard]] Variable own_forward(Module& module, const Variable& x);

/// From now on modules of exactly this class have such a forward. Before main(): a layer's source
/// calls it where it defines a constant. Returns true.
bool add_blocked_layer(const std::type_info& layer, BlockedForward forward = own_forward);

/// The module's BlockedForward; of modules that have none, forward of plain x.
[[nodiscard]] Variable forward_blocked(Module& module, const Variable& x);

}  // namespace lockstep::nn
