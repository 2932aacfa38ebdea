#pragma once
#include <cstdint>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/module.hpp>

// Layers with PyTorch's names, parameter layouts and default initialisation.

namespace lockstep::nn {

/// x[..., in] -> [..., out]; parameters weight[out, in], bias[out].
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  Variable forward(const Variable& x) override;

 private:
  Variable weight_, bias_;
};

/// x[N, in, H, W] -> [N, out, OH, OW]; parameters weight[out, in/groups, k, k], bias[out].
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         const Conv2dOptions& options = {}, bool bias = true);
  Variable forward(const Variable& x) override;

  [[nodiscard]] const Variable& weight() const noexcept { return weight_; }
  [[nodiscard]] const Variable& bias() const noexcept { return bias_; }
  [[nodiscard]] const Conv2dOptions& options() const noexcept { return options_; }

 private:
  Variable weight_, bias_;
  Conv2dOptions options_;
};

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

class ReLU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// In training mode each element is kept with probability 1 - p and scaled by 1 / (1 - p), else
/// zero. Draws from random_context(): the same for a sample whatever rank computes it.
class Dropout : public Module {
 public:
  /// Throws InputError unless 0 <= p < 1.
  explicit Dropout(double p = 0.5);
  Variable forward(const Variable& x) override;
  [[nodiscard]] double p() const noexcept { return p_; }

 protected:
  [[nodiscard]] RandomKey key() const;

 private:
  double p_;
  std::uint32_t stream_;
};

/// Dropout of whole channels of x[N, C, H, W].
class Dropout2d : public Dropout {
 public:
  using Dropout::Dropout;
  Variable forward(const Variable& x) override;
  /// What forward multiplies x by: [N, C] of 0 and 1 / (1 - p); undefined when nothing is dropped.
  [[nodiscard]] Tensor channel_scale(std::int64_t samples, std::int64_t channels) const;
};

/// Along `dim`.
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int dim = -1) : dim_(dim) {}
  Variable forward(const Variable& x) override;

 private:
  int dim_;
};

/// x[N, ...] -> [N, rest].
class Flatten : public Module {
 public:
  Variable forward(const Variable& x) override;
};

}  // namespace lockstep::nn
