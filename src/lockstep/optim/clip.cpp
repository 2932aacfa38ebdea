#include <lockstep/optim/clip.hpp>

#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/clip.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep::optim {
namespace {

void expect_positive(const char* what, double value) {
  if (value > 0.0) return;  // not for NaN
  throw InputError(fmt::format("{} must be above 0, not {}", what, value));
}

}  // namespace

double clip_grad_norm(const std::vector<nn::NamedParameter>& parameters, double max_norm) {
  expect_positive("the largest norm of the gradients", max_norm);
  double squares = 0.0;
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) squares += sum_of_squares(gradient);
  }
  const double norm = std::sqrt(squares);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1.0) return norm;  // not for NaN
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) scale(gradient, factor);
  }
  return norm;
}

void clip_grad_value(const std::vector<nn::NamedParameter>& parameters, double limit) {
  expect_positive("the largest value of a gradient", limit);
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) clamp(gradient, limit);
  }
}

}  // namespace lockstep::optim
