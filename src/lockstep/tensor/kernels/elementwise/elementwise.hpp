#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Elementwise operations on tensors of any shape; operands must agree in shape and device.

namespace lockstep {

/// t = value, converted to t's dtype.
void fill(const Tensor& t, double value);

/// y = x converted to y's dtype, as static_cast would; to bf16 and f16 by way of f32, rounded to
/// nearest. Same shape.
void convert(const Tensor& x, const Tensor& y);

/// y += alpha * x. One floating dtype, or one f32 and the other of 16 bits; computed in f32 and
/// rounded once if one has 16 bits.
void add_scaled(const Tensor& x, double alpha, const Tensor& y);

/// x *= alpha. Any floating dtype.
void scale(const Tensor& x, double alpha);

/// t = factor t + shift, modulo 2^64 as the hardware and PyTorch count. i64, i32 or u8.
void affine_of_whole(const Tensor& t, std::uint64_t factor, std::uint64_t shift);

}  // namespace lockstep
