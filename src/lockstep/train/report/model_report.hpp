#pragma once
#include <string>

namespace lockstep::train {

class Task;
struct RunPlan;

/// The task's model as a table, one line per layer: name, type, output shape, parameters, and
/// forward FLOPs of a sample. Then memory: that of parameters, gradients and optimizer state; the
/// peak that a training step of plan.train.batch_size samples on one rank adds; the whole process
/// with its libraries, measured in two steps; and the copy of an asynchronous save. Then, if
/// mesh_of(plan, ranks) is more than one rank, the mesh_report of it. Throws InputError if options,
/// data, model and mesh do not fit together.
[[nodiscard]] std::string model_report(const Task& task, const RunPlan& plan, int ranks = 0);

}  // namespace lockstep::train
