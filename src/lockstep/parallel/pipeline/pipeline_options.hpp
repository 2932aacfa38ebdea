#pragma once
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class DistributedDataParallel;

/// A parameter by its name in the module of a stage, as named_parameters() has it.
struct StageParameter {
  int stage = 0;
  std::string name;
};

/// Options of Pipeline.
struct PipelineOptions {
  /// Parameters that several stages hold, such as a GPT's embedding in the first stage and in its
  /// head: {{{0, "wte.weight"}, {3, "wte.weight"}}}. Each stage has its own copy, of one shape and
  /// dtype, on its rank; stages of one rank share one variable. The first one's value is copied to
  /// the others when the pipeline is made, and each step sums their gradients, with the same bits
  /// on all ranks, so that equal optimizers keep them equal. The same on every rank.
  std::vector<std::vector<StageParameter>> tied;
  /// With replicas of the pipeline: a DistributedDataParallel of each of this rank's stages, over
  /// the ranks that hold this stage in the replicas (a mesh's group("dp")). A step then averages
  /// gradients over the replicas, once, after the rank's last action. Without DdpOptions::shards
  /// and sync_batch_norm.
  std::vector<std::shared_ptr<DistributedDataParallel>> data_parallel;
};

}  // namespace lockstep
