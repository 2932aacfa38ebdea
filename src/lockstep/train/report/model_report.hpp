#pragma once
#include <string>

namespace lockstep::train {

class Task;
struct RunPlan;

/// The task's model as a table, a layer a line: name, type, output shape, parameters, and forward
/// FLOPs of a sample; then the memory of parameters, gradients and optimizer state, what a training
/// step of plan.train.batch_size samples on one rank adds at its peak, and that of the whole
/// process with its libraries, found by taking two steps; and what an asynchronous save keeps.
/// Throws InputError where options, data and model do not fit.
[[nodiscard]] std::string model_report(const Task& task, const RunPlan& plan);

}  // namespace lockstep::train
