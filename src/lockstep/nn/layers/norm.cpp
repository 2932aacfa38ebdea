#include <lockstep/nn/layers/norm.hpp>

#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep::nn {
namespace {

/// The shape, if it has a dimension and each holds something.
const Shape& checked(const char* layer, const Shape& normalized_shape) {
  if (normalized_shape.dims() < 1 || normalized_shape.numel() < 1) {
    throw InputError(std::string(layer) +
                     ": normalized_shape must have at least one dimension and no empty one, not " +
                     to_string(normalized_shape));
  }
  return normalized_shape;
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, double eps, bool bias) : eps_(eps) {
  weight_ = register_parameter("weight", Tensor::full(checked("LayerNorm", normalized_shape), 1.0));
  if (bias) bias_ = register_parameter("bias", Tensor::zeros(normalized_shape));
}

Variable LayerNorm::forward(const Variable& x) { return layer_norm(x, weight_, bias_, eps_); }

RMSNorm::RMSNorm(const Shape& normalized_shape, double eps) : eps_(eps) {
  weight_ = register_parameter("weight", Tensor::full(checked("RMSNorm", normalized_shape), 1.0));
}

Variable RMSNorm::forward(const Variable& x) { return rms_norm(x, weight_, eps_); }

}  // namespace lockstep::nn
