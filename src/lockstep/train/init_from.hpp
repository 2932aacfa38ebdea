#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::train {

/// What a model took of other weights.
struct WeightsTaken {
  std::int64_t taken = 0;                ///< tensors
  std::vector<std::string> other_shape;  ///< in both: "fc.weight [10, 512], not [1000, 512]"
  std::vector<std::string> missing;      ///< of the model, not among the weights
  std::vector<std::string> unused;       ///< of the weights, not in the model

  /// "took 60 of 62 tensors; of another shape, left as initialised: ..."
  [[nodiscard]] std::string in_words() const;
};

/// Copies into `model`'s tensors those of `weights` that have the same name and shape; other
/// floating types are converted. Where all names begin with "module.", as DistributedDataParallel's
/// do in PyTorch, they are taken without it. Local.
WeightsTaken take_weights(const StateDict& weights, const StateDict& model);

/// train.init_from: take_weights of a file (a checkpoint, safetensors, any HDF5 file), or of the
/// newest good checkpoint of a run folder, which rank 0 reads for all. Throws AgreedError where it
/// cannot be read, or nothing in it fits. Collective.
WeightsTaken init_from(ProcessGroup& group, const std::filesystem::path& path,
                       const StateDict& model);

}  // namespace lockstep::train
