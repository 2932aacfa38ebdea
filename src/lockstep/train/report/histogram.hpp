#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep::train {

/// How often values occur, in TensorFlow's buckets (tensorflow/core/lib/histogram/histogram.cc):
/// their limits are 1e-12 times powers of 1.1 up to 1e20, and the same below zero.
struct Histogram {
  /// Bucket i holds values below limits[i], from limits[i - 1] on. Empty buckets are left out where
  /// neither neighbour has a value.
  std::vector<double> limits;
  std::vector<double> counts;
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::int64_t count = 0;  ///< values that are finite; the others are left out
};

/// Of a tensor of floating dtype on any device. Waits for the device.
[[nodiscard]] Histogram histogram_of(const Tensor& values);

}  // namespace lockstep::train
