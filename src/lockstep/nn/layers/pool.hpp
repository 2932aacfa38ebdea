#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// Largest elements of windows over `dims` spatial dimensions, as max_pool. Sequential fuses
/// MaxPool2d with a convolution before it and a ReLU behind.
template <std::size_t dims>
class MaxPool : public Module {
 public:
  explicit MaxPool(const PoolOptions<dims>& options) : options_(options) {}
  explicit MaxPool(const Extents<dims>& kernel) : options_{.kernel = kernel} {}
  Variable forward(const Variable& x) override;
  [[nodiscard]] const PoolOptions<dims>& options() const noexcept { return options_; }

 private:
  PoolOptions<dims> options_;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

/// Means of such windows, as avg_pool.
template <std::size_t dims>
class AvgPool : public Module {
 public:
  explicit AvgPool(const PoolOptions<dims>& options, bool count_include_pad = true,
                   std::int64_t divisor_override = 0)
      : options_(options),
        count_include_pad_(count_include_pad),
        divisor_override_(divisor_override) {}
  explicit AvgPool(const Extents<dims>& kernel) : AvgPool(PoolOptions<dims>{.kernel = kernel}) {}
  Variable forward(const Variable& x) override;

 private:
  PoolOptions<dims> options_;
  bool count_include_pad_;
  std::int64_t divisor_override_;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

/// The output's spatial extents, for any x.
template <std::size_t dims>
class AdaptiveMaxPool : public Module {
 public:
  explicit AdaptiveMaxPool(const Extents<dims>& output_size) : output_size_(output_size) {}
  Variable forward(const Variable& x) override;

 private:
  Extents<dims> output_size_;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// torch.nn.AdaptiveAvgPool1d, 2d and 3d.
template <std::size_t dims>
class AdaptiveAvgPool : public Module {
 public:
  explicit AdaptiveAvgPool(const Extents<dims>& output_size) : output_size_(output_size) {}
  Variable forward(const Variable& x) override;

 private:
  Extents<dims> output_size_;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

}  // namespace lockstep::nn
