#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/collectives.hpp>

namespace lockstep {

/// Norms of the gradients of a model of parallelize_module, equal to the undivided model's.
/// Parameters that all ranks hold count once, slabs are summed over the group, slabs that several
/// ranks hold count once.
class TensorParallelGradNorm {
 public:
  /// Collective over `group`, the model's: ranks exchange which slabs they hold.
  TensorParallelGradNorm(const nn::Module& model, GroupPtr group);
  /// Of the gradients of `parameters`, whose placements are in `state` under their names: a
  /// pipeline's counted_parameters(), or the pieces that FullyShardedDataParallel or
  /// ZeroRedundancyOptimizer keep of a model with that state_dict(). The same list on every rank of
  /// `group`. Collective over it.
  TensorParallelGradNorm(const std::vector<nn::NamedParameter>& parameters, const StateDict& state,
                         GroupPtr group);
  /// optim::grad_norm of the undivided model, the same bits on every rank. Collective.
  [[nodiscard]] double norm() const;
  /// optim::clip_grad_norm of the undivided model: scales this rank's gradients, returns the norm.
  /// Collective. Throws InputError unless max_norm > 0.
  double clip(double max_norm) const;
  [[nodiscard]] const GroupPtr& group() const noexcept { return group_; }

 private:
  /// Slabs with an equal number of holders.
  struct Held {
    int holders;
    std::vector<nn::NamedParameter> slabs;
  };

  GroupPtr group_;
  std::vector<nn::NamedParameter> whole_;
  std::vector<Held> held_;
  Tensor mine_, all_;  ///< f64 [1], [ranks, 1]: norms of slabs
};

/// The same for one call: PyTorch's clip_grad_norm_ on DTensors.
double tensor_parallel_clip_grad_norm(const nn::Module& model, const GroupPtr& group,
                                      double max_norm);

}  // namespace lockstep
