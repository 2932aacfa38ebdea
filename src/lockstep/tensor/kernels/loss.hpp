#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

enum class Reduction : std::uint8_t { none, mean, sum };

/// PyTorch's options of nll_loss and cross_entropy. mean divides by the summed weights of the
/// targets that are not ignored.
struct LossOptions {
  Reduction reduction = Reduction::mean;
  Tensor class_weight;               ///< [C] of the input's dtype, or undefined
  std::int64_t ignore_index = -100;  ///< targets of this value count for nothing
  double label_smoothing = 0.0;      ///< cross_entropy only
};

}  // namespace lockstep
