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
  const double squares = squares_of_gradients(parameters);
  if (!(squares < 1e-280 || squares > 1e280)) return std::sqrt(squares);
  double norm = 0.0;  // of doubles whose squares would overflow or vanish
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) norm = std::hypot(norm, euclidean_norm(widened(gradient)));
  }
  return norm;
}

double squares_of_gradients(const std::vector<nn::NamedParameter>& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  const Device device = parameters.empty() ? Device{} : parameters[0].variable.data().device();
  const Tensor sums = Tensor::zeros({count}, DType::f64, device);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor gradient = parameters[static_cast<std::size_t>(i)].variable.grad();
    if (gradient.defined()) sum_of_squares(widened(gradient), sums.slice(i, i + 1));
  }
  const Tensor here = sums.to(Device{});
  double squares = 0.0;
  for (std::int64_t i = 0; i < count; ++i) squares += static_cast<const double*>(here.data())[i];
  return squares;
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
