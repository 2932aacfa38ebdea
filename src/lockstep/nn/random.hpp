#pragma once
#include <cstdint>

#include <lockstep/tensor/kernels/dropout.hpp>

namespace lockstep::nn {

/// What layers that draw random numbers in forward (dropout) draw from, for this thread: the run's
/// seed, the step, and the position in the global batch of the first row this rank computes. Set by
/// the training loop before each forward; a loop of one's own that never sets it draws the same
/// numbers every step.
struct RandomContext {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;
};
[[nodiscard]] RandomContext& random_context() noexcept;

/// Starts the sequence from which this thread initialises parameters and numbers its dropout
/// layers: two models built after the same manual_seed are equal, on every rank.
void manual_seed(std::uint64_t seed);

/// The number of the next layer that draws random numbers (RandomKey::stream).
[[nodiscard]] std::uint32_t next_random_stream() noexcept;

}  // namespace lockstep::nn
