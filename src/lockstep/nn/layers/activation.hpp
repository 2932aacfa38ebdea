#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>

namespace lockstep::nn {

/// max(0, x).
class ReLU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// Exact, or by tanh (PyTorch's approximate = "tanh").
class GELU : public Module {
 public:
  explicit GELU(Gelu approximation = Gelu::exact) : approximation_(approximation) {}
  Variable forward(const Variable& x) override;

 private:
  Gelu approximation_;
};

/// x / (1 + exp(-x)).
class SiLU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// 1 / (1 + exp(-x)).
class Sigmoid : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// tanh(x).
class Tanh : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// Along `dim`.
class Softmax : public Module {
 public:
  explicit Softmax(int dim = -1) : dim_(dim) {}
  Variable forward(const Variable& x) override;

 private:
  int dim_;
};

/// Along `dim`.
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int dim = -1) : dim_(dim) {}
  Variable forward(const Variable& x) override;
  [[nodiscard]] int dim() const noexcept { return dim_; }

 private:
  int dim_;
};

/// scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), with the constants of Klambauer et al. 2017.
class SELU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// x / (1 + |x|).
class Softsign : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// min(max(0, x), 6).
class ReLU6 : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// relu6(x + 3) / 6.
class Hardsigmoid : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// x * relu6(x + 3) / 6.
class Hardswish : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// x * tanh(log(1 + exp(x))).
class Mish : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// log(1 / (1 + exp(-x))).
class LogSigmoid : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// x where x > 0, else negative_slope * x.
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Variable forward(const Variable& x) override;

 private:
  double negative_slope_;
};

/// x where x > 0, else alpha * (exp(x) - 1).
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1.0) : alpha_(alpha) {}
  Variable forward(const Variable& x) override;

 private:
  double alpha_;
};

/// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).
class CELU : public Module {
 public:
  explicit CELU(double alpha = 1.0) : alpha_(alpha) {}
  Variable forward(const Variable& x) override;

 private:
  double alpha_;
};

/// log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold.
class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1.0, double threshold = 20.0)
      : beta_(beta), threshold_(threshold) {}
  Variable forward(const Variable& x) override;

 private:
  double beta_;
  double threshold_;
};

/// x, clamped to [min_val, max_val].
class Hardtanh : public Module {
 public:
  explicit Hardtanh(double min_val = -1.0, double max_val = 1.0)
      : min_val_(min_val), max_val_(max_val) {}
  Variable forward(const Variable& x) override;

 private:
  double min_val_;
  double max_val_;
};

/// Halves the extent of `dim`.
class GLU : public Module {
 public:
  explicit GLU(int dim = -1) : dim_(dim) {}
  Variable forward(const Variable& x) override;

 private:
  int dim_;
};

/// Parameter weight[num_parameters]: one for all, or one a channel (dimension 1 of x).
class PReLU : public Module {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25);
  Variable forward(const Variable& x) override;

 private:
  Variable weight_;
};

}  // namespace lockstep::nn
