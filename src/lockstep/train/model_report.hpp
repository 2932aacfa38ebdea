#pragma once
#include <string>

namespace lockstep::train {

class Task;
struct RunPlan;

/// The task's model as a table, a layer a line: name, type, output shape, parameters, and forward
/// FLOPs of a sample; then the memory of parameters, gradients and optimizer state, and what one
/// training step of plan.train.batch_size samples on one rank adds at its peak, found by taking
/// that step. Throws InputError where options, data and model do not fit.
[[nodiscard]] std::string model_report(const Task& task, const RunPlan& plan);

}  // namespace lockstep::train
