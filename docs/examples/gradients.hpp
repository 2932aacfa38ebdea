#pragma once
#include <cmath>
#include <cstdint>
#include <lockstep/rpc/dist_autograd.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <stdexcept>
#include <vector>

/// What a backward pass left of each of the parameters.
inline std::vector<lockstep::Tensor> gradients_of(
    const std::vector<lockstep::Variable>& parameters) {
  std::vector<lockstep::Tensor> gradients;
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}
/// The same of a pass within a context, on the rank that has the parameters.
inline std::vector<lockstep::Tensor> gradients_of(const std::vector<lockstep::Variable>& parameters,
                                                  std::uint64_t context) {
  std::vector<lockstep::Tensor> gradients;
  for (const auto& parameter : parameters)
    gradients.push_back(lockstep::dist_autograd::gradient(context, parameter));
  return gradients;
}

/// |a - b| / |b| of each tensor, summed over all: not a number if one of b is zero.
inline double relative_difference(const std::vector<lockstep::Tensor>& a,
                                  const std::vector<lockstep::Tensor>& b) {
  if (a.size() != b.size()) throw std::invalid_argument("so many gradients do not belong together");
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].to_vector<float>(), y = b[i].to_vector<float>();
    double difference = 0, size = 0;
    for (std::size_t k = 0; k < y.size(); ++k) {
      difference += std::pow(static_cast<double>(x.at(k)) - static_cast<double>(y[k]), 2);
      size += std::pow(static_cast<double>(y[k]), 2);
    }
    sum += std::sqrt(difference / size);
  }
  return sum;
}
