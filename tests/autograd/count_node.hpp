#pragma once
#include <lockstep/autograd/node.hpp>

namespace lockstep::test {

/// Counts how often it is differentiated.
struct CountNode : PooledNode<CountNode> {
  explicit CountNode(int& c) : count(c) {}
  void backward(const Tensor& grad_output) override {
    ++count;
    pass_grad(0, grad_output);
  }
  [[nodiscard]] const char* name() const noexcept override { return "count"; }
  int& count;
};

}  // namespace lockstep::test
