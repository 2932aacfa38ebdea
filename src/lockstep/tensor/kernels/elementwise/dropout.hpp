#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Which random numbers to use. Row i of a batch is global sample first_sample + i of the step, so
/// every rank draws for its share the numbers that one rank would draw for the whole batch.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< one for each consumer (layer)
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;
  /// Not null: of a captured draw, the address at which kernels find the step (DeviceGraph).
  const std::uint32_t* step_memory = nullptr;

  /// For kernels.
  [[nodiscard]] constexpr std::uint32_t step_now() const {
    return step_memory ? *step_memory : step;
  }
};

/// Fills scale[N, ...] (f32, f64 or bool, at least one dimension) with 1 / (1 - p), each element
/// with probability 1 - p, else with 0; bool with true and false. Element e of row i takes word
/// e mod 4 of Philox block (e / 4, first_sample + i, step, stream) under `seed`. Throws Error
/// unless 0 <= p <= 1.
void dropout_scale(double p, const RandomKey& key, const Tensor& scale);

/// y (+)= x * scale, where an element of `scale` applies to x.numel() / scale.numel() neighbours:
/// scale[N, ...] of x's shape drops elements, scale[N,C] drops channels of x[N,C,H,W]. x and y are
/// f32 or f64, as the scale; or of 16 bits, which cannot hold 1 / (1 - p): the scale is bool then,
/// and true stands for `kept`.
void apply_scale(const Tensor& x, const Tensor& scale, bool accumulate, const Tensor& y,
                 double kept = 1.0);

}  // namespace lockstep
