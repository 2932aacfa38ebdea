#include <lockstep/train/parameter_update.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>
#include <lockstep/parallel/tensor/found_inf.hpp>
#include <lockstep/train/parts/library_parts.hpp>

namespace lockstep::train {
namespace {

/// Converts GradScaler's state between its own form and that of checkpoints.
constexpr const char *grad_scale = "grad_scale", *grad_scale_growth = "grad_scale_growth",
                     *scale_slot = "scale", *growth_slot = "growth_tracker";

/// Throws InputError for options with which the ranks cannot share out an optimizer.
void expect_shareable(const RunPlan& plan) {
  const char* const other = ranks_go_apart(plan) ? "ddp.comm_hook = \"post_local_sgd\""
                            : plan.train.precision == Precision::fp16 ? "train.precision = \"fp16\""
                            : plan.train.check_replicas_every > 0     ? "train.check_replicas_every"
                            : plan.mesh.tp != 1                       ? "mesh.tp"
                                                                      : nullptr;
  if (!other) return;
  throw InputError(fmt::format(
      "train.zero = 1 gives each rank a share of the optimizer's state, which {} does not support. "
      "Leave out one of the two.",
      other));
}

}  // namespace

ParameterUpdate::ParameterUpdate(const RunPlan& plan) {
  if (plan.train.precision != Precision::fp16) return;
  scaler_.emplace(optim::GradScalerOptions{.init_scale = plan.train.loss_scale,
                                           .growth_interval = plan.train.loss_scale_growth_steps},
                  plan.device);
}

void ParameterUpdate::check(const Task& /*task*/, const RunPlan& plan) const {
  if (plan.train.zero > 0) expect_shareable(plan);
  if (!scaler_ || !ranks_go_apart(plan)) return;
  throw InputError(
      "train.precision = \"fp16\" skips steps with gradients that are not finite on all ranks "
      "together, but with ddp.comm_hook = \"post_local_sgd\" each rank has its own gradients. Use "
      "bf16 or f32.");
}

void ParameterUpdate::begin(const Training& training) {
  if (training.tensor_group) divided_norm_.emplace(training.model, training.tensor_group);
}

optim::Clipping ParameterUpdate::clip(const Training& training,
                                      const std::vector<nn::NamedParameter>& parameters) const {
  if (!divided_norm_) return optim::clip_gradients(training.plan.optimizer, parameters);
  return optim::clip_gradients(training.plan.optimizer, parameters,
                               [&](const Tensor& norm) { norm.fill(divided_norm_->norm()); });
}

UpdateFigures ParameterUpdate::operator()(const Training& training, ZeroRedundancyOptimizer* zero) {
  optim::Optimizer& optimizer = training.optimizer;
  if (scaler_) {
    scaler_->unscale(optimizer);
    if (training.tensor_group) agree_on_found_inf(*scaler_, optimizer, training.tensor_group);
  }
  const auto clipping = clip(training, zero ? zero->parameters() : optimizer.parameters());
  if (!scaler_) {
    if (zero) zero->take_gradients();
    optimizer.step({.gradient_factor = clipping.factor, .found_inf = {}});
    if (zero) zero->gather();
    return {.grad_norm = clipping.norm, .found_inf = {}, .loss_scale = {}};
  }
  const Tensor found_inf = scaler_->step(optimizer, clipping.factor);
  scaler_->update();
  return {clipping.norm, found_inf, scaler_->scale_tensor()};
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
