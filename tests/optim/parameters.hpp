#pragma once
#include <cmath>
#include <string>
#include <vector>

#include <lockstep/nn/module.hpp>

// Parameters for the tests of optimizers.

namespace lockstep::test {

inline nn::NamedParameter parameter(const std::string& name, const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {name, Variable(Tensor::from(values, {n}), true)};
}

inline std::vector<float> values(const nn::NamedParameter& p) {
  return p.variable.data().to_vector<float>();
}

inline void set_grad(const Variable& variable, double value) {
  variable.grad_buffer().fill(value);
  variable.mark_grad_present();
}

/// n numbers of both signs and many sizes, the same for the same seed.
inline std::vector<double> waves(std::int64_t n, double seed) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i) + seed;
    numbers.push_back(std::sin(3.7 * x) * std::exp(2.0 * std::sin(0.9 * x)));
  }
  return numbers;
}

inline void set_grad(const Variable& variable, const std::vector<double>& values) {
  const Tensor& data = variable.data();
  variable.grad_buffer().copy_from(Tensor::from(values, data.shape()).to(data.dtype()));
  variable.mark_grad_present();
}

}  // namespace lockstep::test
