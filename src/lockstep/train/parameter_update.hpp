#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/step_figures.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep {
class ZeroRedundancyOptimizer;
}

namespace lockstep::train {

/// Turns gradients into an update of the parameters: clips them as [optimizer] says. With
/// train.precision = "fp16" the loss is scaled before the backward pass and the gradients are
/// unscaled (GradScaler). Part of every training.
class ParameterUpdate final : public TrainingPart {
 public:
  explicit ParameterUpdate(const RunPlan& plan);

  [[nodiscard]] std::string name() const override { return "parameter_update"; }
  void check(const Task& task, const RunPlan& plan) const override;
  void begin(const Training& training) override;

  /// Factor of the step's losses, for DistributedDataParallel::backward; undefined for 1.
  [[nodiscard]] Tensor loss_scale() const { return scaler_ ? scaler_->scale_tensor() : Tensor(); }
  /// One optimizer step with gradients of losses times loss_scale(), of `zero` if it is not null.
  /// With `zero`, or divided tensors of the model, it is collective. It does not wait for a device,
  /// unless the norm of divided tensors is taken. Allocates nothing.
  UpdateFigures operator()(const Training& training, ZeroRedundancyOptimizer* zero = nullptr);
  /// Logs a skipped update of that step; `loss_scale` is the next step's.
  void tell_left_out(std::int64_t step, double loss_scale) const;

  void save(PartState& state) const override;
  void restore(const Training& training, PartState& state) override;

 private:
  [[nodiscard]] optim::Clipping clip(const Training& training,
                                     const std::vector<nn::NamedParameter>& parameters) const;

  std::optional<optim::GradScaler> scaler_;             ///< with fp16 only
  std::optional<TensorParallelGradNorm> divided_norm_;  ///< of a model with divided tensors
};

}  // namespace lockstep::train
