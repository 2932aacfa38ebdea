#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>

namespace lockstep::nn {

/// x[N, in, H, W] -> [N, out, OH, OW]; parameters weight[out, in/groups, kh, kw], bias[out].
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Extents<2>& kernel,
         const Conv2dOptions& options = {}, bool bias = true);
  Variable forward(const Variable& x) override;

  [[nodiscard]] const Variable& weight() const noexcept { return weight_; }
  [[nodiscard]] const Variable& bias() const noexcept { return bias_; }
  [[nodiscard]] const Conv2dOptions& options() const noexcept { return options_; }

 private:
  Variable weight_, bias_;
  Conv2dOptions options_;
};

}  // namespace lockstep::nn
