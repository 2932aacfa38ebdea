#pragma once
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/activation.hpp>

namespace lockstep::nn {

class ReLU : public Module, public Blocked<ReLU> {
 public:
  Variable forward(const Variable& x) override;
  Variable forward_blocked(const Variable& x) override { return forward(x); }
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

}  // namespace lockstep::nn
