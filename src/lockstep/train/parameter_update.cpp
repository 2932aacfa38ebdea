#include <lockstep/train/parameter_update.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {
namespace {

/// Converts GradScaler's state between its own form and that of checkpoints.
constexpr const char *grad_scale = "grad_scale", *grad_scale_growth = "grad_scale_growth",
                     *scale_slot = "scale", *growth_slot = "growth_tracker";

}  // namespace

ParameterUpdate::ParameterUpdate(const RunPlan& plan) {
  if (plan.train.precision != Precision::fp16) return;
  scaler_.emplace(optim::GradScalerOptions{.init_scale = plan.train.loss_scale,
                                           .growth_interval = plan.train.loss_scale_growth_steps},
                  plan.device);
}

void ParameterUpdate::check(const Task& /*task*/, const RunPlan& plan) const {
  if (!scaler_ || !ranks_go_apart(plan)) return;
  throw InputError(
      "train.precision = \"fp16\" skips steps with gradients that are not finite on all ranks "
      "together, but with ddp.comm_hook = \"post_local_sgd\" each rank has its own gradients. Use "
      "bf16 or f32.");
}

UpdateFigures ParameterUpdate::operator()(const Training& training) {
  try {
    return update(training);
  } catch (...) {
    if (scaler_) scaler_->forget();  // the step may be run again
    throw;
  }
}

UpdateFigures ParameterUpdate::update(const Training& training) {
  Strategy& strategy = training.strategy;
  optim::Optimizer& optimizer = strategy.optimizer();
  if (scaler_) {
    scaler_->unscale(optimizer);
    strategy.agree_on_found_inf(*scaler_);
  }
  const optim::Clipping clipping = strategy.clip_gradients(training.plan.optimizer);
  strategy.before_update();
  UpdateFigures figures{.grad_norm = clipping.norm, .found_inf = {}, .loss_scale = {}};
  if (scaler_) {
    figures.found_inf = scaler_->step(optimizer, clipping.factor);
    scaler_->update();
    figures.loss_scale = scaler_->scale_tensor();
  } else {
    optimizer.step({.gradient_factor = clipping.factor, .found_inf = {}});
  }
  strategy.after_update();
  return figures;
}

void ParameterUpdate::tell_left_out(std::int64_t step, double loss_scale) const {
  log(LogLevel::info, fmt::format("step {} is skipped: its gradients are not finite in fp16; the "
                                  "loss is now scaled by {:g}",
                                  step, loss_scale));
}

void ParameterUpdate::save(PartState& state) const {
  if (!scaler_) return;
  state.set_number(grad_scale, scaler_->scale());
  state.set_count(grad_scale_growth,
                  static_cast<std::int64_t>(scaler_->state_dict().at(growth_slot).item()));
}

void ParameterUpdate::restore(const Training& /*training*/, PartState& state) {
  if (!scaler_) return;
  const StateDict slots = scaler_->state_dict();
  if (const auto scale = state.number(grad_scale)) slots.at(scale_slot).fill(*scale);
  slots.at(growth_slot).fill(static_cast<double>(state.count(grad_scale_growth).value_or(0)));
}

}  // namespace lockstep::train
