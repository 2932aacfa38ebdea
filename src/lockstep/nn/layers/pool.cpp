#include <lockstep/nn/layers/pool.hpp>

#include <lockstep/autograd/functional/conv.hpp>

namespace lockstep::nn {

Variable MaxPool2d::forward(const Variable& x) { return max_pool2d(x, options_); }

}  // namespace lockstep::nn
