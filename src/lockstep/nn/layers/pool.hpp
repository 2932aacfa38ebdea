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

}  // namespace lockstep::nn
