#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/pool2d.hpp>

namespace lockstep::nn {

/// x[N, C, H, W] -> [N, C, OH, OW].
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(const Pool2dOptions& options) : options_(options) {}
  explicit MaxPool2d(std::int64_t kernel)
      : options_{.kernel = kernel, .stride = kernel, .padding = 0} {}
  Variable forward(const Variable& x) override;
  [[nodiscard]] const Pool2dOptions& options() const noexcept { return options_; }

 private:
  Pool2dOptions options_;
};

/// x[N, C, H, W] -> [N, C, OH, OW].
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(const Pool2dOptions& options, bool count_include_pad = true)
      : options_(options), count_include_pad_(count_include_pad) {}
  explicit AvgPool2d(std::int64_t kernel)
      : AvgPool2d(Pool2dOptions{.kernel = kernel, .stride = kernel, .padding = 0}) {}
  Variable forward(const Variable& x) override;

 private:
  Pool2dOptions options_;
  bool count_include_pad_;
};

/// x[N, C, H, W] -> [N, C, output_size, output_size], for any H and W.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(std::int64_t output_size) : output_size_(output_size) {}
  Variable forward(const Variable& x) override;

 private:
  std::int64_t output_size_;
};

}  // namespace lockstep::nn
