#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/sequential.hpp>

#include "asked_for_device.hpp"

// Small smooth models and batches for the tests of this folder.

namespace lockstep::test {

/// Elements a, sin(1 a), ... : all distinct, the same everywhere.
inline Tensor wave(const Shape& shape, double phase, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(phase + 1.7 * static_cast<double>(i));
  }
  return Tensor::from(values, shape).to(dtype).to(asked_for_device());
}

/// bool [B,L]: some keys of each sample are hidden, the first one of sample 1 too.
inline Tensor padding_mask(std::int64_t batch, std::int64_t length) {
  const Tensor mask = Tensor::empty({batch, length}, DType::boolean);
  auto* at = static_cast<bool*>(mask.data());
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) *at++ = (6 * b + 5 * s + 1) % 7 < 2 && (b + s) > 0;
  }
  return mask.to(asked_for_device());
}

/// y = tanh(x), dx = dy (1 - y^2), through host vectors.
struct TanhNode : PooledNode<TanhNode> {
  explicit TanhNode(std::vector<double> output) : y(std::move(output)) {}
  void backward(const Tensor& grad_output) override {
    auto grad = grad_output.to(DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < grad.size(); ++i) grad[i] *= 1.0 - y[i] * y[i];
    pass_grad(
        0,
        Tensor::from(grad, grad_output.shape()).to(grad_output.dtype()).to(grad_output.device()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "tanh"; }
  std::vector<double> y;
};

inline Variable tanh(const Variable& x) {
  auto y = x.data().to(DType::f64).to_vector<double>();
  for (double& value : y) value = std::tanh(value);
  return record<TanhNode>(Tensor::from(y, x.shape()).to(x.data().dtype()).to(x.data().device()),
                          {&x}, y);
}

/// W2 tanh(W1 x + b1) + b2, with a buffer and a last parameter that forward does not use.
struct Mlp : nn::Module {
  explicit Mlp(double seed, std::int64_t hidden = 5, DType dtype = DType::f64)
      : W1(register_parameter("W1", wave({hidden, 6}, seed, dtype))),
        b1(register_parameter("b1", wave({hidden}, seed + 1, dtype))),
        W2(register_parameter("W2", wave({4, hidden}, seed + 2, dtype))),
        b2(register_parameter("b2", wave({4}, seed + 3, dtype))),
        unused(register_parameter("unused", wave({3}, seed + 4, dtype))),
        statistics(register_buffer("statistics", wave({2}, seed + 5, dtype))) {}

  Variable forward(const Variable& x) override {
    return linear(test::tanh(linear(x, W1, b1)), W2, b2);
  }

  Variable W1, b1, W2, b2, unused;
  Tensor statistics;
};

/// Linear, BatchNorm1d, Linear in f32, on the batches of make_batch().
inline std::shared_ptr<nn::Sequential> batch_norm_model() {
  auto model = std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Linear>(6, 5), std::make_shared<nn::BatchNorm1d>(5),
      std::make_shared<nn::Linear>(5, 4)});
  for (const Variable& p : model->parameters()) {
    p.data().copy_from(wave(p.shape(), 0.3, DType::f32));
  }
  return model;
}

/// Rows of a batch; each rank takes a contiguous share.
struct Batch {
  Tensor x, target;

  [[nodiscard]] std::int64_t rows() const { return x.size(0); }
  [[nodiscard]] Batch rows(std::int64_t begin, std::int64_t end) const {
    return {x.slice(begin, end), target.slice(begin, end)};
  }
  /// The share of `rank`: sizes differ by at most one, and may be zero.
  [[nodiscard]] Batch share(int rank, int size) const {
    return rows(rows() * rank / size, rows() * (rank + 1) / size);
  }
};

inline Batch make_batch(std::int64_t rows, double phase, DType dtype = DType::f64) {
  std::vector<std::int64_t> target(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int64_t>(i * 7 % 4);
  return {wave({rows, 6}, phase, dtype), Tensor::from(target, {rows}).to(asked_for_device())};
}

/// Mean cross entropy; undefined for a batch without rows.
template <class Model>
Variable mean_loss(Model& model, const Batch& batch) {
  if (batch.rows() == 0) return {};
  return cross_entropy(model.forward(Variable(batch.x)), batch.target);
}

}  // namespace lockstep::test
