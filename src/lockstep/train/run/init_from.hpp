#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/state_dict.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {

/// What a model took of other weights.
struct WeightsTaken {
  std::int64_t taken = 0;                ///< tensors
  std::vector<std::string> other_shape;  ///< in both: "fc.weight [10, 512], not [1000, 512]"
  std::vector<std::string> missing;      ///< of the model, not among the weights
  std::vector<std::string> unused;       ///< of the weights, not in the model

  /// "took 60 of 62 tensors; of another shape, left as initialised: ..."
  [[nodiscard]] std::string in_words() const;
  /// Whether the weights are another model's: none was taken, or fewer than one of ten that are
  /// there, but for 1000. A backbone with another head, or one part of several, is not.
  [[nodiscard]] bool are_another_models() const noexcept;
};

/// Copies into `model`'s tensors those of `weights` that have the same name and shape; other
/// floating types are converted. Where all names begin with "module.", as DistributedDataParallel's
/// do in PyTorch, they are taken without it. Local.
WeightsTaken take_weights(const StateDict& weights, const StateDict& model);

/// train.init_from's weights, on rank 0 alone: of a file (a checkpoint, safetensors, any HDF5
/// file), or of the newest good checkpoint of a run folder. Throws AgreedError where they cannot be
/// read, or are another model's than the task's. It is called before the run folder is prepared: a
/// wrong path then moves no earlier run aside, and the path may be that run's. Collective.
[[nodiscard]] StateDict read_init_from(ProcessGroup& group, const std::filesystem::path& path,
                                       const Task& task);

/// take_weights of rank 0's `weights`, for all. Collective.
WeightsTaken init_from(ProcessGroup& group, const StateDict& weights, const StateDict& model);

}  // namespace lockstep::train
