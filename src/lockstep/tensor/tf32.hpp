#pragma once

namespace lockstep {

/// Allows a GPU's units for TF32 to multiply the operands of f32 matrix products and convolutions,
/// or no longer does. They round operands to 10 bits of a fraction, where f32 has 23; sums are f32.
/// One setting of the process, off at first, for forward and backward passes that start later on
/// any thread (PyTorch: torch.backends.cuda.matmul.allow_tf32 and cudnn.allow_tf32). No effect on
/// the host and on simulated devices, on operands of other types and on those that are rounded to
/// 16 bits (precision.hpp), and on gradients of biases, which are sums.
void allow_tf32(bool on) noexcept;

/// Whether it is allowed.
[[nodiscard]] bool tf32_allowed() noexcept;

}  // namespace lockstep
