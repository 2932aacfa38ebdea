#include <lockstep/optim/clip.hpp>

#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/for_each_gradient.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>

namespace lockstep::optim {
namespace {

void expect_positive(const char* what, double value) {
  if (value > 0.0) return;  // not for NaN
  throw InputError(fmt::format("{} must be above 0, not {}", what, value));
}

}  // namespace

double grad_norm(const std::vector<nn::NamedParameter>& parameters) {
  double squares = 0.0;
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) squares += sum_of_squares(widened(gradient));
  }
  if (!(squares < 1e-280 || squares > 1e280)) return std::sqrt(squares);
  double norm = 0.0;  // of doubles whose squares would overflow or vanish
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) norm = std::hypot(norm, euclidean_norm(widened(gradient)));
  }
  return norm;
}

double clip_factor(double norm, double max_norm) {
  expect_positive("the largest norm of the gradients", max_norm);
  const double factor = max_norm / (norm + 1e-6);
  return factor >= 1.0 ? 1.0 : factor;  // a NaN stays
}

double clip_grad_norm(const std::vector<nn::NamedParameter>& parameters, double max_norm) {
  const double norm = grad_norm(parameters), factor = clip_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  for_each_gradient(parameters, [&](const Tensor& g) { scale(g, factor); });
  return norm;
}

void clip_grad_value(const std::vector<nn::NamedParameter>& parameters, double limit) {
  expect_positive("the largest value of a gradient", limit);
  for_each_gradient(parameters, [&](const Tensor& g) { clamp(g, limit); });
}

}  // namespace lockstep::optim
