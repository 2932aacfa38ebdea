#pragma once
#include <memory>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/parallel/mesh_options.hpp>

namespace lockstep::nn {
class Module;
}

namespace lockstep::train {

struct RunPlan;

/// The groups of a training, from [mesh]: which ranks share out what.
struct RankGroups {
  std::shared_ptr<ProcessGroup> all;
  /// The ranks that share out a batch: each computes other samples with the same part of the model.
  std::shared_ptr<ProcessGroup> data;
  /// The ranks that share out the model's tensors: they compute the same samples together. Null if
  /// each holds all of the model.
  std::shared_ptr<ProcessGroup> tensor;
};

/// Collective. Throws InputError, on every rank, for sizes that do not fit.
[[nodiscard]] RankGroups make_rank_groups(std::shared_ptr<ProcessGroup> all,
                                          const MeshOptions& options);

/// The sizes of the dimensions on `ranks` ranks. Throws InputError for sizes that do not fit. Local.
[[nodiscard]] MeshOptions fitted(const MeshOptions& options, int ranks);

/// Divides `model` as tensor_group will. Throws InputError if model, plan and sizes do not fit
/// together. Local.
void divide_for_check(const RunPlan& plan, const MeshOptions& sizes, nn::Module& model);

}  // namespace lockstep::train
