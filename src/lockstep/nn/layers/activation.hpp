#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>

namespace lockstep::nn {

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

class SiLU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class Sigmoid : public Module {
 public:
  Variable forward(const Variable& x) override;
};

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

class SELU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class Softsign : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class ReLU6 : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class Hardsigmoid : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class Hardswish : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class Mish : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class LogSigmoid : public Module {
 public:
  Variable forward(const Variable& x) override;
};

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Variable forward(const Variable& x) override;

 private:
  double negative_slope_;
};

class ELU : public Module {
 public:
  explicit ELU(double alpha = 1.0) : alpha_(alpha) {}
  Variable forward(const Variable& x) override;

 private:
  double alpha_;
};

class CELU : public Module {
 public:
  explicit CELU(double alpha = 1.0) : alpha_(alpha) {}
  Variable forward(const Variable& x) override;

 private:
  double alpha_;
};

class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1.0, double threshold = 20.0)
      : beta_(beta), threshold_(threshold) {}
  Variable forward(const Variable& x) override;

 private:
  double beta_;
  double threshold_;
};

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
