#pragma once
#include <typeinfo>

#include <lockstep/nn/module.hpp>

// How built-in containers keep images in channel blocks (tensor/kernels/conv/channel_blocks.hpp)
// from one built-in layer to the next. Not a public header: forward of a module of an unknown
// class, or of a class derived from a known one, takes and returns plain values.

namespace lockstep::nn {

/// As the module's forward, but x may be in channel blocks, and so may be the result.
using BlockedForward = Variable (*)(Module& module, const Variable& x);

/// Runs the class's own blocked forward, if it has one.
[[nodiscard]] Variable own_forward(Module& module, const Variable& x);

/// Registers such a forward for modules of exactly this class. Runs before main(): a layer's source
/// calls it in a constant's initialiser. Returns true.
bool add_blocked_layer(const std::type_info& layer, BlockedForward forward = own_forward);

/// The module's BlockedForward; of modules that have none, forward of plain x.
[[nodiscard]] Variable forward_blocked(Module& module, const Variable& x);

}  // namespace lockstep::nn
