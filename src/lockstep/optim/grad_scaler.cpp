#include <lockstep/optim/grad_scaler.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/optim/for_each_gradient.hpp>
#include <lockstep/tensor/kernels/optim/grad_scale.hpp>
#include <lockstep/tensor/kernels/reduce/not_finite.hpp>

namespace lockstep::optim {
namespace {

using Limits = std::numeric_limits<float>;  // limits of the scale

void expect(bool legal, const char* name, double value, const char* range) {
  if (legal) return;  // false for NaN
  throw InputError(fmt::format("GradScaler: {} is {}, but must be {}", name, value, range));
}

void expect_no_f16_gradient(const Optimizer& optimizer) {
  for (const auto& [name, variable] : optimizer.parameters()) {
    const Tensor gradient = variable.grad();
    if (!gradient.defined() || gradient.dtype() != DType::f16) continue;
    throw Error(fmt::format(
        "GradScaler: the gradient of '{}' is f16, where unscaling would flush much of it to zero. "
        "Leave it scaled (step(optimizer, factor) divides in f32; a norm is scale() "
        "times too large), or keep the parameters in f32 and compute under Autocast.",
        name));
  }
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options, Device device)
    : options_(options),
      scale_(Tensor::zeros({}, DType::f32, device)),
      growth_tracker_(Tensor::zeros({}, DType::i64, device)) {
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

Variable GradScaler::scaled(const Variable& loss) const {
  if (scale_.device() == Device{}) return loss * scale();
  return loss * Variable(scale_.to(loss.data().dtype()));
}

GradScaler::Checked* GradScaler::checked(const Optimizer& optimizer) {
  const auto at = std::ranges::find(checked_, &optimizer, &Checked::optimizer);
  return at == checked_.end() ? nullptr : &*at;
}

GradScaler::Checked& GradScaler::begin_check(const Optimizer& optimizer) {
  const Device device = optimizer.parameters().front().variable.data().device();
  if (device != scale_.device()) {
    throw ShapeError(
        fmt::format("GradScaler: the parameters are on {}, its scale is on {}: construct it with "
                    "the parameters' device, GradScaler(options, device)",
                    to_string(device), to_string(scale_.device())));
  }
  return checked_.emplace_back(Checked{&optimizer, Tensor::zeros({1}, DType::f32, device)});
}

void GradScaler::unscale(Optimizer& optimizer) {
  Checked* gradients = checked(optimizer);
  if (gradients && gradients->is_stepped) {
    throw Error(
        "GradScaler: unscale() was called after this optimizer's step(): call it before step(), "
        "and update() once after the steps of all optimizers");
  }
  if (gradients && gradients->is_unscaled)
    throw Error("GradScaler: these gradients are already unscaled: call update() first");
  expect_no_f16_gradient(optimizer);
  if (!gradients) gradients = &begin_check(optimizer);
  gradients->is_unscaled = true;
  for_each_gradient(optimizer.parameters(),
                    [&](const Tensor& g) { lockstep::unscale(g, scale_, gradients->found_inf); });
}

Tensor GradScaler::found_inf(const Optimizer& optimizer) {
  const Checked* const gradients = checked(optimizer);
  if (gradients && gradients->is_unscaled) return gradients->found_inf;
  throw Error(
      "GradScaler: found_inf is known once these gradients are unscaled: call unscale() "
      "first");
}

Tensor GradScaler::step(Optimizer& optimizer, double gradient_factor) {
  if (gradient_factor == 1.0) return step(optimizer, Tensor());
  return step(optimizer, Tensor::full({1}, gradient_factor, DType::f64, scale_.device()));
}

Tensor GradScaler::step(Optimizer& optimizer, const Tensor& gradient_factor) {
  Checked* gradients = checked(optimizer);
  if (gradients && gradients->is_stepped) {
    throw Error(
        "GradScaler: this optimizer has made its step since the last update(): call update() once "
        "after the steps of all optimizers");
  }
  if (!gradients) gradients = &begin_check(optimizer);
  const Tensor& found_inf = gradients->found_inf;
  for (const auto& parameter : optimizer.parameters()) {
    const Tensor gradient = parameter.variable.grad();
    if (gradient.defined()) find_not_finite(gradient, found_inf);
  }
  Tensor factor = gradient_factor;
  if (!gradients->is_unscaled) {
    factor =
        factor.defined() ? factor.clone() : Tensor::full({1}, 1.0, DType::f64, scale_.device());
    factor /= scale_.reshape({1}).to(DType::f64);
  }
  optimizer.step({.gradient_factor = factor, .found_inf = found_inf});
  gradients->is_stepped = true;
  return found_inf;
}

void GradScaler::update() {
  if (checked_.empty()) {
    throw Error(
        "GradScaler: update() was called without a step() since the last one: call step() of each "
        "optimizer first");
  }
  Tensor found_inf = Tensor::zeros({1}, DType::f32, scale_.device());
  for (const Checked& one : checked_) found_inf += one.found_inf;
  update_grad_scale(scale_, growth_tracker_, found_inf,
                    {options_.growth_factor, options_.backoff_factor, options_.growth_interval});
  checked_.clear();
}

void GradScaler::forget() noexcept { checked_.clear(); }

StateDict GradScaler::state_dict() const {
  StateDict state;
  state.insert("scale", scale_);
  state.insert("growth_tracker", growth_tracker_);
  return state;
}

}  // namespace lockstep::optim
