#pragma once
#include <memory>
#include <vector>

namespace lockstep {
class Batch;
class Dataset;
class ProcessGroup;
struct MeshDim;
}  // namespace lockstep
namespace lockstep::nn {
class Module;
}

namespace lockstep::train {

struct MeshOptions;
struct RunPlan;

/// The groups of a training, from [mesh]: ranks that share out model, state, samples or tokens.
struct RankGroups {
  std::shared_ptr<ProcessGroup> all;
  /// The ranks that share out the samples of a batch.
  std::shared_ptr<ProcessGroup> batch;
  /// The ranks that share out each sequence. Null if each has whole ones.
  std::shared_ptr<ProcessGroup> sequence = nullptr;
  /// Those two together: ranks whose losses and gradients are summed. They hold the same part of
  /// the model.
  std::shared_ptr<ProcessGroup> data;
  /// Those of `data` over which train.zero shares out the model's state.
  std::shared_ptr<ProcessGroup> shards;
  /// Those of `data` that hold the same shares. Null if no two do.
  std::shared_ptr<ProcessGroup> replicas = nullptr;
  /// The ranks that share out the model's tensors: they compute the same samples together. Null if
  /// each holds all of the model.
  std::shared_ptr<ProcessGroup> tensor = nullptr;
  /// The ranks that share out the model's layers, by stage. Null if each has all of them.
  std::shared_ptr<ProcessGroup> stages = nullptr;

  [[nodiscard]] int sequence_parts() const noexcept;
  /// This rank's slice of the sequences of `batch`, if several share them out; else the batch.
  [[nodiscard]] Batch own_slice(const Batch& batch) const;
};

/// The dimensions of [mesh], from the outermost to the innermost, which is on one node where that
/// is possible. Local.
[[nodiscard]] std::vector<MeshDim> dims_of(const MeshOptions& options);

/// Collective. Throws InputError, on every rank, for sizes that do not fit.
[[nodiscard]] RankGroups make_rank_groups(std::shared_ptr<ProcessGroup> all,
                                          const MeshOptions& options);

/// The sizes of the dimensions on `ranks` ranks. Throws InputError for sizes that do not fit.
/// Local.
[[nodiscard]] MeshOptions fitted(const MeshOptions& options, int ranks);

/// Parts into which a mesh of `ranks` ranks divides a batch. Throws as fitted() does. Local.
[[nodiscard]] std::int64_t parts_of_batch(const MeshOptions& options, int ranks);

/// Divides `model` over the ranks. Collective.
void divide(nn::Module& model, const RankGroups& ranks);
/// Divides `model` as rank 0 of a mesh of these sizes would. Throws InputError if model, data, plan
/// and sizes do not fit together. Local.
void divide_for_check(const RunPlan& plan, const MeshOptions& sizes, const Dataset& data,
                      nn::Module& model);

}  // namespace lockstep::train
