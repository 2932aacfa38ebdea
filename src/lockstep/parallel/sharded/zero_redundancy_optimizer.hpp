#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <lockstep/comm/work.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

class DistributedDataParallel;
class ProcessGroup;

namespace optim {
class Optimizer;
}

/// Shares out the optimizer of a DistributedDataParallel over its ranks, as PyTorch's
/// ZeroRedundancyOptimizer (ZeRO-1): every rank holds all parameters and gradients, but updates one
/// equal run of each bucket and has the optimizer's state of that run only. Then all ranks gather
/// the updated parameters.
///   ZeroRedundancyOptimizer zero(ddp, [](auto parameters) {
///     return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions{.lr =
///     1e-3});
///   });
///   ddp.zero_grad();
///   ddp.backward(nll_loss(ddp.forward(x), target), weight);  // collective
///   zero.step();                                             // collective
/// The values are those of an undivided optimizer, bit for bit. The module has whole gradients, so
/// clip by optim::grad_norm(module.named_parameters()). That takes 1.5 times the traffic of
/// FullyShardedDataParallel without reshard_after_forward, which has pieces of gradients. One
/// thread at a time.
class ZeroRedundancyOptimizer {
 public:
  /// Makes the optimizer of this rank's pieces of the trained parameters: flat leaves under the
  /// parameters' names, some without elements.
  using Make =
      std::function<std::unique_ptr<optim::Optimizer>(std::vector<nn::NamedParameter> pieces)>;

  /// Shared parts of several models that a rank trains over one group, as the stages of a
  /// pipeline.
  struct Parts {
    std::vector<DistributedDataParallel*> ddps;
    std::vector<nn::NamedParameter> trained;  ///< of all of them
    StateDict state;                          ///< the placements of these
    /// Those of which every rank updates all. A parameter that is tied to one of another model,
    /// whose buckets cut it elsewhere, has to be: a checkpoint takes one cut only.
    std::vector<Variable> whole;
  };

  /// `ddp` must live as long. Collective. Throws InputError for an optimizer that looks at whole
  /// parameters (LARS, LAMB), Error if none is trained, and errors of `make`.
  ZeroRedundancyOptimizer(DistributedDataParallel& ddp, const Make& make);
  /// The same of several; one at least.
  ZeroRedundancyOptimizer(const Parts& parts, const Make& make);
  ~ZeroRedundancyOptimizer();
  ZeroRedundancyOptimizer(const ZeroRedundancyOptimizer&) = delete;
  ZeroRedundancyOptimizer& operator=(const ZeroRedundancyOptimizer&) = delete;

  /// Forgets the gradients of the module, as ddp.zero_grad().
  void zero_grad();
  /// One update by the gradients of the module, times `gradient_factor`, the same on all ranks.
  /// Collective. Allocates nothing.
  void step(double gradient_factor = 1.0);
  /// The same in parts, around another call of optimizer().step(): first the pieces get the
  /// module's gradients (local), then all ranks get the updated values (collective).
  void take_gradients();
  void gather();
  /// If the module's gradients are not finite, makes those of every rank's pieces so: a GradScaler
  /// sees the pieces only, and all have to skip the same steps.
  ///   zero.take_gradients();
  ///   zero.agree_on_found_inf();
  ///   scaler.step(zero.optimizer());
  ///   scaler.update();
  ///   zero.gather();
  /// The module's gradients stay scaled: clip by a norm divided by scaler.scale(), without
  /// GradScaler::unscale(), which would reach this rank's pieces only. Collective. Throws Error on
  /// every rank if one has no element of any trained parameter, as of a very small model.
  void agree_on_found_inf();

  /// The whole trained parameters, in the order of the model.
  [[nodiscard]] const std::vector<nn::NamedParameter>& parameters() const noexcept {
    return parameters_;
  }
  /// This rank's, for rates and momentum.
  [[nodiscard]] optim::Optimizer& optimizer() const noexcept { return *optimizer_; }
  /// The optimizer's state, each slot with its place in the whole parameter's
  /// (Placement::flat_run_of), also of a slab of tensor parallelism: a checkpoint of it holds whole
  /// tensors, which an undivided optimizer reads. Load with load_checkpoint(group, path, model,
  /// zero.state_dict()).
  [[nodiscard]] StateDict state_dict() const;
  /// Throws Error listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state);

 private:
  struct Bucket {
    ProcessGroup* group;
    Tensor values;  ///< [ranks, run]
    Tensor rest;    ///< the elements after these: the last rank's, too
    Tensor own;     ///< this rank's run
    Tensor sent;    ///< the same in memory of the group
  };
  void share_out(const Parts& parts, ProcessGroup& group, const Tensor& values);

  std::vector<nn::NamedParameter> parameters_, pieces_;  ///< the same order
  StateDict placements_;
  std::vector<Bucket> buckets_;
  std::vector<Work> works_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace lockstep
