#pragma once
#include <string>
#include <vector>

#include <lockstep/base/list_view.hpp>
#include <lockstep/parallel/pipeline/schedule.hpp>

namespace lockstep {

/// Proves that a schedule ends, by executing its dependencies with each rank's actions in their
/// order: forward of a stage needs forward of the stage before, backward also the gradient from the
/// stage behind. Throws InputError, which names rank, stage and micro-batch, for ranks that wait
/// for each other, and for an action that is missing, given twice, or on another rank than its
/// stage. Local; a few milliseconds for 64 stages and 512 micro-batches.
void expect_deadlock_free(const PipelineSchedule& schedule);

/// The times of one stage for one micro-batch, in any unit.
struct PipelineCosts {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;
  double message = 0.0;  ///< from its end until its result is at the next stage's rank
};

/// A schedule over time, if each action begins as soon as its rank and its input allow.
struct PipelineSimulation {
  double makespan = 0.0;              ///< from the first action's begin to the last one's end
  double bubble = 0.0;                ///< the share of all ranks' time in which they wait
  std::vector<double> busy;           ///< of each rank
  std::vector<int> peak_activations;  ///< of each rank: forwards not yet followed by their backward
  std::vector<std::vector<double>> begins;  ///< of each rank's actions
};

/// `costs`: one for each stage, or one for all. Throws as expect_deadlock_free does, and InputError
/// for another number of costs.
[[nodiscard]] PipelineSimulation simulate(const PipelineSchedule& schedule,
                                          ListView<PipelineCosts> costs = {PipelineCosts{}});

/// A line for each rank and a column for each unit of time, where forward, backward (input) and
/// backward (weights) take one unit each, and backward two:
///   1f1b, 2 ranks, 2 stages, 3 micro-batches: bubble 25.0 %
///   rank 0  F0 F1 .  .  B0 -  F2 B1 -  .  B2 -
///   rank 1  .  F0 B0 -  F1 B1 -  F2 B2 -  .  .
/// F, B, I, W and the micro-batch, before it the stage if a rank has several; "-" continues the
/// action before, "." waits. Throws as expect_deadlock_free does.
[[nodiscard]] std::string to_string(const PipelineSchedule& schedule);

}  // namespace lockstep
