#pragma once
#include <array>
#include <cstdint>

#include <lockstep/autograd/functional/pool_nd.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// Largest elements of windows of any extents over `dims` spatial dimensions. For square windows
/// over images there is MaxPool2d, which Sequential fuses.
template <std::size_t dims>
class MaxPool : public Module {
 public:
  explicit MaxPool(const PoolOptions<dims>& options) : options_(options) {}
  Variable forward(const Variable& x) override { return max_pool(x, options_); }

 private:
  PoolOptions<dims> options_;
};
using MaxPool1d = MaxPool<1>;
using MaxPool3d = MaxPool<3>;

/// Means of such windows.
template <std::size_t dims>
class AvgPool : public Module {
 public:
  explicit AvgPool(const PoolOptions<dims>& options, bool count_include_pad = true,
                   std::int64_t divisor_override = 0)
      : options_(options),
        count_include_pad_(count_include_pad),
        divisor_override_(divisor_override) {}
  Variable forward(const Variable& x) override {
    return avg_pool(x, options_, count_include_pad_, divisor_override_);
  }

 private:
  PoolOptions<dims> options_;
  bool count_include_pad_;
  std::int64_t divisor_override_;
};
using AvgPool1d = AvgPool<1>;
using AvgPool3d = AvgPool<3>;

/// Outputs of these extents, for any x. For squares there is AdaptiveAvgPool2d.
template <std::size_t dims>
class AdaptiveMaxPool : public Module {
 public:
  explicit AdaptiveMaxPool(const std::array<std::int64_t, dims>& output_size)
      : output_size_(output_size) {}
  Variable forward(const Variable& x) override { return adaptive_max_pool(x, output_size_); }

 private:
  std::array<std::int64_t, dims> output_size_;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

template <std::size_t dims>
class AdaptiveAvgPool : public Module {
 public:
  explicit AdaptiveAvgPool(const std::array<std::int64_t, dims>& output_size)
      : output_size_(output_size) {}
  Variable forward(const Variable& x) override { return adaptive_avg_pool(x, output_size_); }

 private:
  std::array<std::int64_t, dims> output_size_;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

}  // namespace lockstep::nn
