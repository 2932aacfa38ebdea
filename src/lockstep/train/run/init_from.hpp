#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/state_dict.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {

/// Result of copying weights into a model.
struct WeightsTaken {
  std::int64_t taken = 0;  ///< number of tensors
  std::vector<std::string>
      other_shape;  ///< different shape in both: "fc.weight [10, 512], not [1000, 512]"
  std::vector<std::string> missing;  ///< in the model, missing in the weights
  std::vector<std::string> unused;   ///< in the weights, missing in the model

  /// "took 60 of 62 tensors; of another shape, left as initialised: ..."
  [[nodiscard]] std::string in_words() const;
  /// Whether the weights are another model's: none was taken, or fewer than one in ten; up to 1000
  /// unused ones are allowed. A backbone with another head, or one part of several, is not another
  /// model.
  [[nodiscard]] bool are_another_models() const noexcept;
};

/// Copies tensors of `weights`, which are whole, into those of `model` with the same name and
/// shape, or a part of them where the model holds a part (Placement); other floating types are
/// converted. The prefix "module." of PyTorch's DistributedDataParallel is removed if all names
/// have it. Local.
WeightsTaken take_weights(const StateDict& weights, const StateDict& model);

/// train.init_from's weights, on rank 0 alone: from a file (a checkpoint, safetensors, any HDF5
/// file), or from the newest good checkpoint of a run folder. Throws AgreedError if they cannot be
/// read, or belong to another model. Call it before the run folder is prepared: then a wrong path
/// moves no earlier run aside, and the path may be that run's. Collective.
[[nodiscard]] StateDict read_init_from(ProcessGroup& group, const std::filesystem::path& path,
                                       const Task& task);

/// take_weights of rank 0's `weights`, on all ranks, of which each may hold another part of the
/// model. Parts of tensors that are not taken stay as they are; of whole ones rank 0's are
/// broadcast. Collective.
WeightsTaken init_from(ProcessGroup& group, const StateDict& weights, const StateDict& model);

}  // namespace lockstep::train
