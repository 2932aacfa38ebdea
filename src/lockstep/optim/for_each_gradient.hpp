#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep::optim {

/// f(gradient) of each parameter that has one. What f sees of a gradient of 16 bits is an f32 copy,
/// which is rounded back afterwards.
template <class F>
void for_each_gradient(const std::vector<nn::NamedParameter>& parameters, const F& f) {
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (!gradient.defined()) continue;
    if (size_of(gradient.dtype()) > 2) {
      f(gradient);
      continue;
    }
    const Tensor wide = gradient.to(DType::f32);
    f(wide);
    convert(wide, gradient);
  }
}

}  // namespace lockstep::optim
