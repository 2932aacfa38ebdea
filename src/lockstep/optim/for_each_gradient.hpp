#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep::optim {

/// A gradient as kernels take it: itself, or of one of 16 bits an f32 copy.
inline Tensor widened(const Tensor& gradient) {
  return is_half(gradient.dtype()) ? gradient.to(DType::f32) : gradient;
}

/// f(gradient) of each parameter that has one, to change it. For a 16-bit gradient f gets an f32
/// copy, which is rounded back afterwards.
template <class F>
void for_each_gradient(const std::vector<nn::NamedParameter>& parameters, const F& f) {
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (!gradient.defined()) continue;
    const Tensor wide = widened(gradient);
    f(wide);
    if (wide.dtype() != gradient.dtype()) convert(wide, gradient);
  }
}

}  // namespace lockstep::optim
