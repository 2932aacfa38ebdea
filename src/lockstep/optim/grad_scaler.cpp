#include <lockstep/optim/grad_scaler.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/optim/for_each_gradient.hpp>
#include <lockstep/tensor/finite.hpp>

namespace lockstep::optim {
namespace {

using Limits = std::numeric_limits<float>;  // of the scale

void expect(bool legal, const char* name, double value, const char* range) {
  if (legal) return;  // not for NaN
  throw InputError(fmt::format("GradScaler: {} is {}, but must be {}", name, value, range));
}

void expect_no_f16_gradient(const Optimizer& optimizer) {
  for (const auto& [name, variable] : optimizer.parameters()) {
    const Tensor gradient = variable.grad();
    if (!gradient.defined() || gradient.dtype() != DType::f16) continue;
    throw Error(fmt::format(
        "GradScaler: the gradient of '{}' is of f16, in which much of it becomes zero when it is "
        "unscaled. Leave it scaled (step(optimizer, factor) divides in f32; a norm is scale() "
        "times too large), or keep the parameters in f32 and compute under Autocast.",
        name));
  }
}

bool has_finite_gradients(const Optimizer& optimizer) {
  const auto& parameters = optimizer.parameters();
  const bool is_here = parameters.front().variable.data().device() == Device{};
  const auto has_doubles = [](const auto& p) { return p.variable.data().dtype() == DType::f64; };
  // Squares of f32 and narrower are far from overflow in double: one number tells of all.
  if (!is_here && std::ranges::none_of(parameters, has_doubles))
    return std::isfinite(squares_of_gradients(parameters));
  return std::ranges::all_of(optimizer.parameters(), [](const auto& parameter) {
    const Tensor gradient = parameter.variable.grad();
    return !gradient.defined() || all_finite(gradient);
  });
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options),
      scale_(Tensor::zeros({}, DType::f32)),
      growth_tracker_(Tensor::zeros({}, DType::i64)) {
  const double initial = options.init_scale;
  expect(initial >= Limits::min() && initial <= Limits::max(), "init_scale", initial,
         "between 1.18e-38 and 3.40e+38");
  expect(options.growth_factor > 1, "growth_factor", options.growth_factor, "above 1");
  expect(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor",
         options.backoff_factor, "above 0 and below 1");
  expect(options.growth_interval > 0, "growth_interval",
         static_cast<double>(options.growth_interval), "above 0");
  scale_.fill(static_cast<float>(initial));
}

double GradScaler::scale() const { return scale_.item(); }

Variable GradScaler::scaled(const Variable& loss) const { return loss * scale(); }

void GradScaler::unscale(Optimizer& optimizer) {
  if (std::ranges::find(unscaled_, &optimizer, &Unscaled::optimizer) != unscaled_.end())
    throw Error("GradScaler: these gradients are unscaled already: update() comes first");
  expect_no_f16_gradient(optimizer);
  for_each_gradient(optimizer.parameters(),
                    [&](const Tensor& g) { lockstep::scale(g, 1.0 / scale()); });
  unscaled_.push_back({&optimizer, has_finite_gradients(optimizer)});
}

bool GradScaler::step(Optimizer& optimizer, double gradient_factor) {
  const auto unscaled = std::ranges::find(unscaled_, &optimizer, &Unscaled::optimizer);
  const bool is_unscaled = unscaled != unscaled_.end();
  if ((is_unscaled && !unscaled->finite) || !has_finite_gradients(optimizer)) {
    found_inf_ = true;
    return false;
  }
  optimizer.step(is_unscaled ? gradient_factor : gradient_factor / scale());
  return true;
}

void GradScaler::update() {
  const double good_steps = found_inf_ ? 0 : growth_tracker_.item() + 1;
  const bool grows = good_steps == static_cast<double>(options_.growth_interval);
  const double factor = found_inf_ ? options_.backoff_factor : options_.growth_factor;
  const auto next = std::max(static_cast<float>(scale() * factor), Limits::min());
  if (found_inf_ || (grows && std::isfinite(next))) scale_.fill(next);
  growth_tracker_.fill(grows ? 0 : good_steps);
  found_inf_ = false;
  unscaled_.clear();
}

StateDict GradScaler::state_dict() const {
  StateDict state;
  state.insert("scale", scale_);
  state.insert("growth_tracker", growth_tracker_);
  return state;
}

}  // namespace lockstep::optim
