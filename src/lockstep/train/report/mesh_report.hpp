#pragma once
#include <string>
#include <vector>

#include <lockstep/parallel/mesh/device_mesh.hpp>

namespace lockstep::train {

class Task;
struct RunPlan;

/// The deck's [mesh] on `ranks` ranks; with 0, on as many as it needs at least: a size of -1 is 1.
/// Throws InputError for sizes that do not fit.
[[nodiscard]] std::vector<MeshDim> mesh_of(const RunPlan& plan, int ranks = 0);

/// Memory and traffic of each rank of a mesh (parallel/mesh/mesh_plan.hpp), as tables: the
/// groups of rank 0 with their links, where `ranks_per_node` ranks share a node (0: unknown);
/// parameters by name, those of all blocks in one line; memory by ZeRO stage, and with the deck's
/// train.zero; bytes that a rank sends in a step of train.batch_size samples. Starts no ranks.
/// Throws InputError as plan_mesh and tensor_parallelize, and for ranks_per_node below 0.
[[nodiscard]] std::string mesh_report(const Task& task, const RunPlan& plan,
                                      const std::vector<MeshDim>& mesh, int ranks_per_node = 0);

}  // namespace lockstep::train
