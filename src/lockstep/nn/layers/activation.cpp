#include <lockstep/nn/layers/activation.hpp>

#include <lockstep/autograd/functional/activation.hpp>

namespace lockstep::nn {

Variable ReLU::forward(const Variable& x) { return relu(x); }

Variable LogSoftmax::forward(const Variable& x) { return log_softmax(x, dim_); }

}  // namespace lockstep::nn
