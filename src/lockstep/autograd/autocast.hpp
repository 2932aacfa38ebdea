#pragma once
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// Mixed precision: while it lives, operations that this thread records compute matrix products and
/// convolutions of f32 tensors in that precision, in forward and in their backward pass, on
/// whatever thread that runs.
///   const Autocast autocast(Precision::bf16);
///   const Variable loss = nll_loss(model.forward(x), target);
/// As with PyTorch's autocast, linear, matmul and attention give results of 16 bits, on a GPU
/// convolutions and batch_norm of their results too; elementwise operations keep their operands'
/// type; losses, softmax, norms and sums give f32 (docs/guide/mixed_precision.md). Parameters and
/// their gradients are f32; f64 tensors are not touched. Autocast(Precision::f32) switches it off.
class Autocast {
 public:
  explicit Autocast(Precision precision) noexcept;
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  PrecisionGuard precision_;
  bool before_;
};

/// Whether this thread is within an Autocast of bf16 or fp16.
[[nodiscard]] bool autocast_enabled() noexcept;

/// The 16-bit type of its products' results. Only if it is enabled.
[[nodiscard]] DType autocast_dtype() noexcept;

}  // namespace lockstep
