#include <lockstep/nn/layers/linear.hpp>

#include <utility>

#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/partition.hpp>

namespace lockstep::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool bias) {
  expect_positive("Linear", "in_features", in_features);
  expect_positive("Linear", "out_features", out_features);
  weight_ = register_parameter("weight", default_weight({out_features, in_features}));
  if (bias) bias_ = register_parameter("bias", default_bias(out_features, in_features));
}

Linear::Linear(Tensor weight, Tensor bias)
    : weight_(register_parameter("weight", std::move(weight))) {
  if (bias.defined()) bias_ = register_parameter("bias", std::move(bias));
}

Variable Linear::forward(const Variable& x) {
  if (const Partition* const ranks = partition()) return ranks->linear(x, weight_, bias_);
  return linear(x, weight_, bias_);
}

Variable Linear::forward_without_values(const Variable& x) {
  if (const Partition* const ranks = partition())
    return ranks->linear_without_values(x, weight_, bias_);
  return linear_without_values(x, weight_, bias_);
}

}  // namespace lockstep::nn
