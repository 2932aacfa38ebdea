#include <lockstep/nn/layers/activation.hpp>

#include <lockstep/autograd/functional/activation.hpp>

namespace lockstep::nn {

Variable ReLU::forward(const Variable& x) { return relu(x); }

Variable GELU::forward(const Variable& x) { return gelu(x, approximation_); }

Variable SiLU::forward(const Variable& x) { return silu(x); }

Variable Sigmoid::forward(const Variable& x) { return sigmoid(x); }

Variable Tanh::forward(const Variable& x) { return tanh(x); }

Variable Softmax::forward(const Variable& x) { return softmax(x, dim_); }

Variable LogSoftmax::forward(const Variable& x) { return log_softmax(x, dim_); }

}  // namespace lockstep::nn
