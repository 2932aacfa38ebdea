#include <lockstep/nn/partition.hpp>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/linear.hpp>

namespace lockstep::nn {

Variable Partition::linear(const Variable& x, const Variable& weight, const Variable& bias) const {
  return lockstep::linear(x, weight, bias);
}

Variable Partition::linear_without_values(const Variable& x, const Variable& weight,
                                          const Variable& bias) const {
  return lockstep::linear_without_values(x, weight, bias);
}

Variable Partition::embedding(const Tensor& index, const Variable& weight,
                              std::int64_t padding_idx) const {
  return lockstep::embedding(index, weight, padding_idx);
}

Variable Partition::dropout(const Variable& x, double p, const RandomKey& key) const {
  return lockstep::dropout(x, p, key);
}

Variable Partition::linear_cross_entropy(const Variable& x, const Variable& weight,
                                         const Tensor& target, const LossOptions& options,
                                         LossGradients when) const {
  return lockstep::linear_cross_entropy(x, weight, target, options, when);
}

}  // namespace lockstep::nn
