#pragma once
#include <string>

namespace lockstep::train {

class Task;
struct RunPlan;

/// The task's model as a table, one line per layer: name, type, output shape, parameters, and
/// forward FLOPs of a sample. Then memory: that of parameters, gradients and optimizer state; the
/// peak that a training step of plan.train.batch_size samples on one rank adds; the whole process
/// with its libraries, measured in two steps; and the copy of an asynchronous save. Throws
/// InputError if options, data and model do not fit together.
[[nodiscard]] std::string model_report(const Task& task, const RunPlan& plan);

}  // namespace lockstep::train
