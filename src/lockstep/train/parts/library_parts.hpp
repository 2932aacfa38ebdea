#pragma once
#include <memory>

#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// The library's own parts. One function in one file makes each, listed once in library_parts().
/// Null: the plan does not use it.
[[nodiscard]] std::shared_ptr<TrainingPart> make_trace_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_tensorboard_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_prometheus_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_finite_loss_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_replica_check_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_local_sgd_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_early_stopping_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_averaging_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_schedule_part(const RunPlan& plan);

/// The parts that the plan uses, in calling order.
[[nodiscard]] TrainingParts library_parts(const RunPlan& plan);

/// Whether each rank trains its own weights between two averages. Parts that need equal weights
/// refuse such a plan in check().
[[nodiscard]] inline bool ranks_go_apart(const RunPlan& plan) {
  return plan.ddp.comm_hook == CommHookKind::post_local_sgd;
}

}  // namespace lockstep::train
