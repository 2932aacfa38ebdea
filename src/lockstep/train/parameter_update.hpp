#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/step_figures.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// Turns gradients into an update of the parameters: clips them as [optimizer] says. With
/// train.precision = "fp16" the loss is scaled before the backward pass and the gradients are
/// unscaled (GradScaler). Part of every training.
class ParameterUpdate final : public TrainingPart {
 public:
  explicit ParameterUpdate(const RunPlan& plan);

  [[nodiscard]] std::string name() const override { return "parameter_update"; }
  void check(const Task& task, const RunPlan& plan) const override;

  /// Factor of the step's losses, for DistributedDataParallel::backward; undefined for 1.
  [[nodiscard]] Tensor loss_scale() const { return scaler_ ? scaler_->scale_tensor() : Tensor(); }
  /// One optimizer step with gradients of losses times loss_scale(). Collective, as the strategy's
  /// functions are. Does not wait for a device where they do not. Allocates nothing.
  UpdateFigures operator()(const Training& training);
  /// Logs a skipped update of that step; `loss_scale` is the next step's.
  void tell_left_out(std::int64_t step, double loss_scale) const;

  void save(PartState& state) const override;
  void restore(const Training& training, PartState& state) override;

 private:
  UpdateFigures update(const Training& training);

  std::optional<optim::GradScaler> scaler_;  ///< with fp16 only
};

}  // namespace lockstep::train
