#include <lockstep/train/parts/library_parts.hpp>

namespace lockstep::train {

TrainingParts library_parts(const RunPlan& plan) {
  TrainingParts parts;
  for (const auto make : {
           make_trace_part,          // before a test loss that is not finite ends the run
           make_tensorboard_part,    // so are files for other tools
           make_prometheus_part,     //
           make_finite_loss_part,    //
           make_replica_check_part,  // before the ranks' models are made one for a save
           make_local_sgd_part,      // before other parts use the ranks' model
           make_early_stopping_part,
           make_averaging_part,
           make_schedule_part,
       }) {
    if (auto part = make(plan)) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace lockstep::train
