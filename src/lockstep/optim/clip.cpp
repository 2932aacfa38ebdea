#include <lockstep/optim/clip.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/for_each_gradient.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>

namespace lockstep::optim {
namespace {

void expect_positive(const char* what, double value) {
  if (value > 0.0) return;  // false for NaN
  throw InputError(fmt::format("{} must be above 0, not {}", what, value));
}

using Parameters = std::vector<nn::NamedParameter>;

Device device_of(const Parameters& parameters) {
  return parameters.empty() ? Device{} : parameters[0].variable.data().device();
}

/// of_one(gradient, number) of each parameter, f64 [parameters]; 0 for one without a gradient.
template <class F>
Tensor numbers_of_gradients(const Parameters& parameters, const F& of_one) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  Tensor numbers = Tensor::zeros({count}, DType::f64, device_of(parameters));
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor gradient = parameters[static_cast<std::size_t>(i)].variable.grad();
    if (gradient.defined()) of_one(widened(gradient), numbers.slice(i, i + 1));
  }
  return numbers;
}

bool has_gradients_of_doubles(const Parameters& parameters) {
  return std::ranges::any_of(parameters, [](const auto& parameter) {
    const Tensor gradient = parameter.variable.grad();
    return gradient.defined() && gradient.dtype() == DType::f64;
  });
}

}  // namespace

double grad_norm(const Parameters& parameters) {
  const Tensor norm = Tensor::empty({1}, DType::f64, device_of(parameters));
  grad_norm(parameters, norm);
  return norm.item();
}

void grad_norm(const Parameters& parameters, const Tensor& norm) {
  const Tensor squares = numbers_of_gradients(
      parameters, [](const Tensor& g, const Tensor& sum) { sum_of_squares(g, sum); });
  norm_of_all(squares, {}, norm);
  if (!has_gradients_of_doubles(parameters)) return;
  // Squares of doubles may overflow or vanish. On the host that is known, so the second pass is
  // rare.
  const bool is_here = norm.device() == Device{};
  if (is_here && norm.item() > 1e-139 && norm.item() < 1e139) return;
  const Tensor norms = numbers_of_gradients(
      parameters, [](const Tensor& g, const Tensor& one) { euclidean_norm(g, one); });
  norm_of_all(squares, norms, norm);
}

double clip_factor(double norm, double max_norm) {
  expect_positive("the largest norm of the gradients", max_norm);
  const double factor = max_norm / (norm + 1e-6);
  return factor >= 1.0 ? 1.0 : factor;  // keeps a NaN
}

void clip_factor(const Tensor& norm, double max_norm, const Tensor& factor) {
  expect_positive("the largest norm of the gradients", max_norm);
  norm_clip_factor(norm, max_norm, factor);
}

double clip_grad_norm(const Parameters& parameters, double max_norm) {
  const double norm = grad_norm(parameters), factor = clip_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  for_each_gradient(parameters, [&](const Tensor& g) { scale(g, factor); });
  return norm;
}

void clip_grad_value(const Parameters& parameters, double limit) {
  expect_positive("the largest value of a gradient", limit);
  for_each_gradient(parameters, [&](const Tensor& g) { clamp(g, limit); });
}

}  // namespace lockstep::optim
