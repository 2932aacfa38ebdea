#pragma once
#include <concepts>
#include <cstdint>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// x[..., normalized_shape] -> the same shape, normalised over those dimensions; with
/// `elementwise_affine` the parameter weight (ones), and with `bias` too bias (zeros), of
/// normalized_shape.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, double eps = 1e-5,
                     bool elementwise_affine = true, bool bias = true);
  explicit LayerNorm(std::int64_t width, double eps = 1e-5, bool elementwise_affine = true,
                     bool bias = true)
      : LayerNorm(Shape{width}, eps, elementwise_affine, bias) {}
  Variable forward(const Variable& x) override;

 private:
  Shape normalized_shape_;
  Variable weight_, bias_;
  double eps_;
};

/// x[..., normalized_shape] divided by its root mean square over those dimensions; with
/// `elementwise_affine` the parameter weight (ones) of normalized_shape.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& normalized_shape, double eps = 1e-6,
                   bool elementwise_affine = true);
  explicit RMSNorm(std::int64_t width, double eps = 1e-6, bool elementwise_affine = true)
      : RMSNorm(Shape{width}, eps, elementwise_affine) {}
  Variable forward(const Variable& x) override;

 private:
  Shape normalized_shape_;
  Variable weight_;
  double eps_;
};

/// x[N, C, ...] normalised over each of num_groups groups of channels; with `affine` parameters
/// weight (ones) and bias (zeros) of [C]. Throws InputError unless the groups divide the channels.
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps = 1e-5,
            bool affine = true);
  Variable forward(const Variable& x) override;

 private:
  std::int64_t num_groups_;
  Variable weight_, bias_;
  double eps_;
};

/// x[N, C, L] normalised over each channel of each sample; with `affine` parameters weight (ones)
/// and bias (zeros) of [C]. By the sample's own statistics always: without PyTorch's
/// track_running_stats. `affine` is a bool and nothing that converts to one, such as PyTorch's
/// momentum in its place.
class InstanceNorm1d : public Module {
 public:
  template <std::same_as<bool> Flag = bool>
  explicit InstanceNorm1d(std::int64_t num_features, double eps = 1e-5, Flag affine = false)
      : InstanceNorm1d(3, num_features, eps, affine) {}
  Variable forward(const Variable& x) override;

 protected:
  InstanceNorm1d(int dims, std::int64_t num_features, double eps, bool affine);

 private:
  int dims_;
  std::int64_t num_features_;
  Variable weight_, bias_;
  double eps_;
};
/// The same of x[N, C, H, W].
class InstanceNorm2d : public InstanceNorm1d {
 public:
  template <std::same_as<bool> Flag = bool>
  explicit InstanceNorm2d(std::int64_t num_features, double eps = 1e-5, Flag affine = false)
      : InstanceNorm1d(4, num_features, eps, affine) {}
};
/// The same of x[N, C, D, H, W].
class InstanceNorm3d : public InstanceNorm1d {
 public:
  template <std::same_as<bool> Flag = bool>
  explicit InstanceNorm3d(std::int64_t num_features, double eps = 1e-5, Flag affine = false)
      : InstanceNorm1d(5, num_features, eps, affine) {}
};

/// x[N, C, ...] divided by a power of the squares of `size` neighbouring channels.
class LocalResponseNorm : public Module {
 public:
  explicit LocalResponseNorm(std::int64_t size, double alpha = 1e-4, double beta = 0.75,
                             double k = 1.0)
      : size_(size), alpha_(alpha), beta_(beta), k_(k) {}
  Variable forward(const Variable& x) override;

 private:
  std::int64_t size_;
  double alpha_, beta_, k_;
};

}  // namespace lockstep::nn
