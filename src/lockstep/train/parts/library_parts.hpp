#pragma once
#include <memory>

#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// The library's own parts. Each is made by one function of one file, and stands in one line of
/// library_parts(). Null: the plan asks for none.
[[nodiscard]] std::shared_ptr<TrainingPart> make_trace_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_finite_loss_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_replica_check_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_local_sgd_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_early_stopping_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_averaging_part(const RunPlan& plan);
[[nodiscard]] std::shared_ptr<TrainingPart> make_schedule_part(const RunPlan& plan);

/// Those that the plan asks for, in the order of their moments.
[[nodiscard]] TrainingParts library_parts(const RunPlan& plan);

/// Whether each rank trains weights of its own between two averages: what needs equal ones refuses
/// such a plan in its check().
[[nodiscard]] inline bool ranks_go_apart(const RunPlan& plan) {
  return plan.ddp.comm_hook == CommHookKind::post_local_sgd;
}

}  // namespace lockstep::train
