#pragma once
#include <string>

namespace lockstep::train {

class Task;
struct RunPlan;

/// What each rank of a mesh would hold and send (parallel/mesh/mesh_plan.hpp), as tables: the
/// groups of rank 0 with their links, where `ranks_per_node` ranks share a node (0: unknown);
/// parameters by name, those of all blocks in one line; memory by ZeRO stage; bytes that a rank
/// sends in a step of train.batch_size samples. `mesh`: "dp=2,tp=4". Starts no ranks. Throws
/// InputError as plan_mesh, and for ranks_per_node below 0.
[[nodiscard]] std::string mesh_report(const Task& task, const RunPlan& plan,
                                      const std::string& mesh, int ranks_per_node = 0);

}  // namespace lockstep::train
