#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Which random numbers to use. Row i of a batch is global sample first_sample + i of the step, so
/// every rank draws for its share what one rank would draw for the whole batch.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< one for each consumer (layer)
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;
};

}  // namespace lockstep
