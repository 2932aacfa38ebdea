#pragma once
#include <cmath>
#include <memory>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/rpc.hpp>

// A small model on a server, for tests of what trains it from elsewhere.

namespace lockstep::test {

struct Affine : nn::Module {
  explicit Affine(double start)
      : weight(register_parameter("weight", Tensor::full({3, 4}, start, DType::f64))),
        bias(register_parameter("bias", Tensor::full({3}, -start, DType::f64))) {}
  Variable forward(const Variable& x) override { return linear(x, weight, bias); }
  std::vector<rpc::RRef<Variable>> parameters_here() { return rpc::parameter_rrefs(*this); }
  std::vector<Tensor> values() { return {weight.data().clone(), bias.data().clone()}; }
  Variable weight, bias;
};
inline std::unique_ptr<Affine> make_affine(double start) { return std::make_unique<Affine>(start); }
LOCKSTEP_RPC(make_affine);
LOCKSTEP_RPC(Affine::forward);
LOCKSTEP_RPC(Affine::parameters_here);
LOCKSTEP_RPC(Affine::values);

inline Variable input(int step) {
  std::vector<double> values(8);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.7 * static_cast<double>(i) + step);
  return Variable(Tensor::from(values, {2, 4}));
}
inline Variable loss_of(const Variable& y) {
  return mse_loss(y, Tensor::full(y.shape(), 0.25, DType::f64));
}

}  // namespace lockstep::test
