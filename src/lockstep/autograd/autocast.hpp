#pragma once
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// Mixed precision: while it lives, operations that this thread records compute matrix products and
/// convolutions of f32 tensors in that precision, in forward and in their backward pass, on
/// whatever thread that runs.
///   const Autocast autocast(Precision::bf16);
///   const Variable loss = nll_loss(model.forward(x), target);
/// Parameters, activations, gradients and everything that is no product stay f32 (the table in
/// docs/guide/mixed_precision.md); f64 tensors are not touched.
using Autocast = PrecisionGuard;

}  // namespace lockstep
