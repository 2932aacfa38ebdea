#include <lockstep/nn/layers/pool.hpp>

#include <lockstep/autograd/functional/conv.hpp>

namespace lockstep::nn {

Variable MaxPool2d::forward(const Variable& x) { return max_pool2d(x, options_); }

Variable AvgPool2d::forward(const Variable& x) {
  return avg_pool2d(x, options_, count_include_pad_);
}

Variable AdaptiveAvgPool2d::forward(const Variable& x) {
  return adaptive_avg_pool2d(x, output_size_);
}

}  // namespace lockstep::nn
