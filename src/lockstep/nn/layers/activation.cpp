#include <lockstep/nn/layers/activation.hpp>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/gated.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/expect.hpp>

namespace lockstep::nn {
namespace {

[[maybe_unused]] const bool relu_is_known = add_blocked_layer(typeid(ReLU));

}  // namespace

Variable ReLU::forward(const Variable& x) { return relu(x); }

Variable GELU::forward(const Variable& x) { return gelu(x, approximation_); }

Variable SiLU::forward(const Variable& x) { return silu(x); }

Variable Sigmoid::forward(const Variable& x) { return sigmoid(x); }

Variable Tanh::forward(const Variable& x) { return tanh(x); }

Variable Softmax::forward(const Variable& x) { return softmax(x, dim_); }

Variable LogSoftmax::forward(const Variable& x) { return log_softmax(x, dim_); }

Variable SELU::forward(const Variable& x) { return selu(x); }

Variable Softsign::forward(const Variable& x) { return softsign(x); }

Variable ReLU6::forward(const Variable& x) { return relu6(x); }

Variable Hardsigmoid::forward(const Variable& x) { return hardsigmoid(x); }

Variable Hardswish::forward(const Variable& x) { return hardswish(x); }

Variable Mish::forward(const Variable& x) { return mish(x); }

Variable LogSigmoid::forward(const Variable& x) { return logsigmoid(x); }

Variable LeakyReLU::forward(const Variable& x) { return leaky_relu(x, negative_slope_); }

Variable ELU::forward(const Variable& x) { return elu(x, alpha_); }

Variable CELU::forward(const Variable& x) { return celu(x, alpha_); }

Variable Softplus::forward(const Variable& x) { return softplus(x, beta_, threshold_); }

Variable Hardtanh::forward(const Variable& x) { return hardtanh(x, min_val_, max_val_); }

Variable GLU::forward(const Variable& x) { return glu(x, dim_); }

PReLU::PReLU(std::int64_t num_parameters, double init) {
  expect_positive("PReLU", "num_parameters", num_parameters);
  weight_ = register_parameter("weight", Tensor::full({num_parameters}, init));
}

Variable PReLU::forward(const Variable& x) { return prelu(x, weight_); }

}  // namespace lockstep::nn
