#include <lockstep/nn/layers/norm.hpp>

#include <lockstep/autograd/functional/group_norm.hpp>
#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/partition.hpp>

namespace lockstep::nn {
namespace {

/// A parameter of `layer` as it is used.
Variable used(const Module& layer, const Variable& parameter) {
  const Partition* const ranks = layer.partition();
  return ranks && parameter.defined() ? ranks->use(parameter) : parameter;
}

/// Returns the shape. Throws unless it has a dimension and no extent is 0.
const Shape& checked(const char* layer, const Shape& normalized_shape) {
  if (normalized_shape.dims() < 1 || normalized_shape.numel() < 1) {
    throw InputError(
        std::string(layer) +
        ": normalized_shape must have at least one dimension, and none may be empty; it is " +
        to_string(normalized_shape));
  }
  return normalized_shape;
}

/// The weight of a norm without one.
Variable ones_like_rows(const Variable& x, const Shape& normalized_shape) {
  return Variable(Tensor::full(normalized_shape, 1.0, x.data().dtype(), x.data().device()));
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, double eps, bool elementwise_affine, bool bias)
    : normalized_shape_(checked("LayerNorm", normalized_shape)), eps_(eps) {
  if (!elementwise_affine) return;
  weight_ = register_parameter("weight", Tensor::full(normalized_shape, 1.0));
  if (bias) bias_ = register_parameter("bias", Tensor::zeros(normalized_shape));
}

Variable LayerNorm::forward(const Variable& x) {
  if (!weight_.defined()) return layer_norm(x, ones_like_rows(x, normalized_shape_), {}, eps_);
  return layer_norm(x, used(*this, weight_), used(*this, bias_), eps_);
}

RMSNorm::RMSNorm(const Shape& normalized_shape, double eps, bool elementwise_affine)
    : normalized_shape_(checked("RMSNorm", normalized_shape)), eps_(eps) {
  if (elementwise_affine)
    weight_ = register_parameter("weight", Tensor::full(normalized_shape, 1.0));
}

Variable RMSNorm::forward(const Variable& x) {
  if (!weight_.defined()) return rms_norm(x, ones_like_rows(x, normalized_shape_), eps_);
  return rms_norm(x, used(*this, weight_), eps_);
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps, bool affine)
    : num_groups_(num_groups), eps_(eps) {
  expect_positive("GroupNorm", "num_groups", num_groups);
  expect_positive("GroupNorm", "num_channels", num_channels);
  if (num_channels % num_groups != 0) {
    throw InputError("GroupNorm: num_groups (" + std::to_string(num_groups) +
                     ") must divide num_channels (" + std::to_string(num_channels) + ")");
  }
  if (!affine) return;
  weight_ = register_parameter("weight", Tensor::full({num_channels}, 1.0));
  bias_ = register_parameter("bias", Tensor::zeros({num_channels}));
}

Variable GroupNorm::forward(const Variable& x) {
  return group_norm(x, num_groups_, weight_, bias_, eps_);
}

InstanceNorm1d::InstanceNorm1d(int dims, std::int64_t num_features, double eps, bool affine)
    : dims_(dims), num_features_(num_features), eps_(eps) {
  expect_positive("InstanceNorm", "num_features", num_features);
  if (!affine) return;
  weight_ = register_parameter("weight", Tensor::full({num_features}, 1.0));
  bias_ = register_parameter("bias", Tensor::zeros({num_features}));
}

Variable InstanceNorm1d::forward(const Variable& x) {
  if (x.shape().dims() != dims_ || x.shape()[1] != num_features_) {
    throw ShapeError("InstanceNorm" + std::to_string(dims_ - 2) + "d of " +
                     std::to_string(num_features_) + " channels takes [N, C, ...] of " +
                     std::to_string(dims_) + " dimensions, not " + describe(x.data()));
  }
  return instance_norm(x, weight_, bias_, eps_);
}

Variable LocalResponseNorm::forward(const Variable& x) {
  return local_response_norm(x, size_, alpha_, beta_, k_);
}

}  // namespace lockstep::nn
