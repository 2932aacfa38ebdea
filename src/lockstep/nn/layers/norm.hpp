#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// x[..., normalized_shape] -> the same shape, normalised over those dimensions; parameters weight
/// (ones) and bias (zeros) of normalized_shape.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, double eps = 1e-5, bool bias = true);
  explicit LayerNorm(std::int64_t width, double eps = 1e-5, bool bias = true)
      : LayerNorm(Shape{width}, eps, bias) {}
  Variable forward(const Variable& x) override;

 private:
  Variable weight_, bias_;
  double eps_;
};

/// x[..., normalized_shape] divided by its root mean square over those dimensions; parameter weight
/// (ones) of normalized_shape.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& normalized_shape, double eps = 1e-6);
  explicit RMSNorm(std::int64_t width, double eps = 1e-6) : RMSNorm(Shape{width}, eps) {}
  Variable forward(const Variable& x) override;

 private:
  Variable weight_;
  double eps_;
};

}  // namespace lockstep::nn
