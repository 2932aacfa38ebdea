#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/step_figures.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// How gradients become an update of the parameters: clipped as [optimizer] says, and with
/// train.precision = "fp16" scaled before the backward pass and back (GradScaler). A part that each
/// training has.
class ParameterUpdate final : public TrainingPart {
 public:
  explicit ParameterUpdate(const RunPlan& plan);

  [[nodiscard]] std::string name() const override { return "parameter_update"; }
  void check(const Task& task, const RunPlan& plan) const override;

  /// What the step's losses are to be multiplied by, for DistributedDataParallel::backward;
  /// undefined for 1.
  [[nodiscard]] Tensor loss_scale() const { return scaler_ ? scaler_->scale_tensor() : Tensor(); }
  /// One update by the optimizer's gradients, of losses times loss_scale(). Local; allocates
  /// nothing. The host waits for no device.
  UpdateFigures operator()(const Training& training);
  /// Says so in the log, if the update of that step was left out; `loss_scale` is that of the next.
  void tell_left_out(std::int64_t step, double loss_scale) const;

  void save(PartState& state) const override;
  void restore(const Training& training, PartState& state) override;

 private:
  std::optional<optim::GradScaler> scaler_;  ///< with fp16
};

}  // namespace lockstep::train
